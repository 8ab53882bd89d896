import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { F16, F32, randomNumbers, sumsOf } from '../../../../../test/support/ggml-sums.ts'
import { half, halves } from '../../../../../test/support/halves.ts'
import {
  type AttentionData,
  type AttentionShape,
  compileForAvx2,
  compileForAvx512,
  hasAvx2,
  hasAvx512,
} from '../../../../../test/support/kernels-alone.ts'
import { locateNativeLibraries } from '../native-paths.ts'

interface Shape {
  /** Storage type of keys and values. */
  readonly stored: 'f16' | 'q8_0'
  readonly width: number
  /** Width of values, where it differs. */
  readonly valueWidth?: number
  readonly cap?: number
  readonly hasSinks?: boolean
  readonly keyHeads: number
  /** Query heads that read one key head. */
  readonly group: number
  readonly rows: number
  readonly cells: number
  readonly streams: number
  readonly threads: number
  /**
   * Fraction of the cells that a row attends to; `apart` if each row attends to other cells than the one before it, like
   * unrelated sequences; null without a mask, as in image encoders.
   */
  readonly seen: number | 'apart' | null
  readonly seed: number
}

interface Outcome {
  /** [stream][row][head][width] */
  readonly found: Float32Array
  /** The same for one row and head, computed from the definition. */
  expected(stream: number, row: number, head: number): number[]
}

type Compute = (shape: AttentionShape, data: AttentionData) => void

const anyShapes: fc.Arbitrary<Shape> = fc.record({
  stored: fc.constant<'f16'>('f16'),
  width: fc.constantFrom(16, 64, 80, 96, 128, 256),
  keyHeads: fc.constantFrom(1, 2, 3, 4, 8),
  group: fc.constantFrom(1, 2, 3, 7, 32),
  rows: fc.constantFrom(1, 2, 5, 16, 33, 70),
  cells: fc.constantFrom(16, 256, 1280),
  streams: fc.constantFrom(1, 1, 2),
  threads: fc.constantFrom(1, 2, 3),
  seen: fc.constantFrom<number | 'apart'>(0.02, 0.1, 0.5, 1, 'apart'),
  seed: fc.nat(),
})

/** Numbers of keys, and of queries, at most. */
const MOST_NUMBERS = 2 ** 19

/** Every width, and every number of cells and of heads in a group, but not the largest of all at once. */
function small(shape: Shape): Shape {
  const { width, cells, group, streams } = shape
  const keyHeads = atMost(shape.keyHeads, width * cells * streams)
  return { ...shape, keyHeads, rows: atMost(shape.rows, width * group * streams * keyHeads) }
}

/** At least one, and no more than there is room for. @param numbers that each needs. */
function atMost(count: number, numbers: number): number {
  return Math.max(1, Math.min(count, Math.floor(MOST_NUMBERS / numbers)))
}

const shapes = anyShapes.map(small)

const shapesOfBlocks: fc.Arbitrary<Shape> = fc
  .tuple(anyShapes, fc.constantFrom(32, 64, 96, 128, 256))
  .map(([shape, width]) => small({ ...shape, width, stored: 'q8_0' }))

/** Soft caps, sinks, and heads as wide as those of multi-head latent attention and of Gemma 4. */
const shapesOfOthers: fc.Arbitrary<Shape> = fc
  .tuple(
    anyShapes,
    fc.constantFrom([64, 64], [128, 128], [192, 128], [512, 512], [576, 512]),
    fc.boolean(),
    fc.boolean(),
  )
  .map(([shape, [width, valueWidth], isCapped, hasSinks]) =>
    small({
      ...{ ...shape, width: width!, valueWidth: valueWidth!, cap: isCapped ? 2 : 0, hasSinks },
      rows: Math.min(shape.rows, 16),
      cells: Math.min(shape.cells, 600 - (600 % 16)),
    }),
  )

/** The last tokens of a sequence, as rows, and the cells of the same sequence in a shared cache. */
const placements = fc.record({
  stored: fc.constantFrom<'f16' | 'q8_0'>('f16', 'q8_0'),
  width: fc.constantFrom(32, 64, 128, 256, 512),
  keyHeads: fc.constantFrom<number>(1, 2, 3),
  group: fc.constantFrom(1, 2, 7),
  length: fc.constantFrom(3, 17, 100, 512, 513, 700, 1100),
  /** Tokens that a row sees, as shares of the length. */
  window: fc.constantFrom(1, 1, 0.4, 0.05),
  rows: fc.integer({ min: 1, max: 24 }),
  /** Rows of the sequence that another call has computed. */
  done: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  /** Rows of other sequences. */
  before: fc.integer({ min: 0, max: 5 }),
  after: fc.integer({ min: 0, max: 5 }),
  /** Cells of others. */
  others: fc.integer({ min: 1, max: 800 }),
  threads: fc.integer({ min: 1, max: 16 }),
  seed: fc.nat(),
})

const shapesOfEncoders: fc.Arbitrary<Shape> = fc
  .tuple(
    anyShapes,
    fc.constantFrom(24, 32, 64, 72, 80, 256),
    fc.constantFrom(1, 2),
    fc.constantFrom(8, 9, 13, 70, 300),
    fc.constantFrom(1, 31, 256, 700),
  )
  .map(([shape, width, group, rows, cells]) => small({ ...shape, width, group, rows, cells, seen: null }))

/** Rows that attend to each other, without a cache. */
const shapesOfBatches: fc.Arbitrary<Shape> = fc
  .tuple(anyShapes, fc.constantFrom(24, 32, 64, 80), fc.constantFrom(1, 2), fc.constantFrom(1, 5, 16, 33, 150, 300))
  .map(([shape, width, group, rows]) => ({ ...shape, width, group, rows, cells: rows }))

/** Texts of a batch that see no other text. */
const batches = fc.record({
  width: fc.constantFrom(24, 32, 64),
  keyHeads: fc.constantFrom(1, 2),
  group: fc.constantFrom(1, 2),
  lengths: fc.array(fc.constantFrom(1, 3, 17, 40, 200, 300), { minLength: 1, maxLength: 5 }),
  /** How far a row sees to either side. */
  window: fc.constantFrom(1000, 1000, 64),
  threads: fc.constantFrom(1, 2, 3),
  seed: fc.nat(),
})

/** Permitted error of f32 sums, relative to the largest result. */
const ROUNDING = 1e-4
const CHECKED = 6
/** Rows that see other cells than each other, before those of the first are seen again. */
const APART = 5
const Q8_0 = 8
/** Numbers in a block of Q8_0. */
const BLOCK = 32

const { kernels, ggmlBase, ggml } = locateNativeLibraries()

const avx2 = hasAvx2() ? await compileForAvx2() : null
const avx512 = hasAvx512() ? await compileForAvx512() : null
const libraries: [name: string, compute: Compute | null][] = [
  ["compiled for this machine's processor", kernels === null ? null : throughGgml(kernels)],
  ['compiled for AVX2', avx2?.attend ?? null],
]
/** The whole library takes the order of cells from a cache; cell-order.test.ts covers it. */
const librariesWithStamps: typeof libraries = [...libraries.slice(1), ['compiled for AVX-512', avx512?.attend ?? null]]

describe.each(libraries)('attention %s', (_, compute) => {
  test.skipIf(compute === null).each([
    ['f16', shapes],
    ['q8_0', shapesOfBlocks],
    ['f16 without a mask', shapesOfEncoders],
    ['f16 with soft caps, sinks and wide heads', shapesOfOthers],
    ['f16 among the rows of a batch', shapesOfBatches],
  ] as const)('over %s is the weighted mean of the values that a row can see', (_, some) => {
    const check = (shape: Shape) => {
      const { width, valueWidth = width, rows, group, keyHeads, streams, seed } = shape
      const { found, expected } = attend(compute!, shape)
      const heads = keyHeads * group
      const random = randomNumbers(seed)
      const below = (limit: number) => Math.floor(random() * limit)
      for (let n = 0; n < CHECKED; n++) {
        const [stream, row, head] = [below(streams), below(rows), below(heads)]
        const truth = expected(stream, row, head)
        const at = ((stream * rows + row) * heads + head) * valueWidth
        const largest = Math.max(...truth.map(Math.abs))
        const furthest = Math.max(...truth.map((value, d) => Math.abs(value - found[at + d]!)))
        expect(furthest / largest).toBeLessThan(ROUNDING)
      }
    }
    fc.assert(fc.property(some, check), { numRuns: 16 })
  })

  const alone = [
    [1, 1, 1],
    [4, 2, 1],
    [4, 2, 3],
    [8, 2, 3],
  ] as const
  const others = alone.flatMap((sizes) => [[...sizes, 0.3] as const, [...sizes, 'apart'] as const])
  test.skipIf(compute === null).each(others)(
    'of a row does not depend on the other rows of the batch: %i key heads, %i queries for each, %i threads, seen: %s',
    (keyHeads, group, threads, seen) => {
      const sizes = { stored: 'f16', width: 64, cells: 512, streams: 1 } as const
      const shape = { ...sizes, keyHeads, group, threads, seen, seed: 7 }
      const together = attend(compute!, { ...shape, rows: 40 }).found
      const alone = attend(compute!, { ...shape, rows: 1 }).found
      expectSameBits(alone, together.subarray(0, alone.length))
    },
  )

  test.skipIf(compute === null)('of a text has the same bits alone and beside others', () => {
    const check = (batch: Batch) => {
      const alone = batch.lengths.map((_, text) => attendTexts(compute!, { ...batch, threads: 1 }, text, text + 1))
      const together = attendTexts(compute!, batch, 0, batch.lengths.length)
      // [row][head][width]: those of a text are together.
      expectSameBits(together, new Float32Array(alone.flatMap((rows) => [...rows])))
    }
    fc.assert(fc.property(batches, check), { numRuns: 12 })
  })
})

type Place = (length: number, others: number, random: () => number) => number[]

const inOrder: [string, Place][] = [
  ['from another cell on', (length, others, random) => stretch(Math.floor(random() * others), length)],
  [
    'in two stretches',
    (length, others, random) => {
      const cut = Math.floor(random() * length)
      return [...stretch(0, cut), ...stretch(cut + others, length - cut)]
    },
  ],
  ['spread', (length, others, random) => chosen(length, others, random).sort((a, b) => a - b)],
  ['alternating with those of others', (length, others) => stretch(0, length).map((i) => i + Math.min(i * 3, others))],
]
const outOfOrder: [string, Place][] = [
  [
    'whose end lies before their beginning',
    (length, others, random) => {
      const cut = Math.floor(random() * length)
      return [...stretch(length - cut + others, cut), ...stretch(0, length - cut)]
    },
  ],
  ['in any order', chosen],
]
const placed = [
  ...libraries.flatMap((library) => inOrder.map((way) => [...library, ...way] as const)),
  ...librariesWithStamps.flatMap((library) => outOfOrder.map((way) => [...library, ...way] as const)),
]

describe('attention of a row depends only on the tokens that it sees', () => {
  describe.each(placed)('%s', (_, compute, way, place) => {
    test.skipIf(compute === null)(`cells ${way}`, () => {
      const check = (of: Placement) => {
        const { keyHeads, group, width, length, before, rows, done, seed } = of
        const alone = { ...of, before: 0, after: 0, done: 0, threads: 1 }
        const tokens = tokensOf(of)
        const plain = attendPlaced(compute!, alone, tokens, stretch(0, length), 0)
        const random = randomNumbers(seed)
        const cells = place(length, of.others, random)
        const found = attendPlaced(compute!, of, tokens, cells, Math.floor(random() * 3))
        const row = keyHeads * group * width
        const expected = plain.subarray(Math.floor(done * Math.min(rows, length)) * row)
        expectSameBits(found.subarray(before * row, before * row + expected.length), expected)
      }
      fc.assert(fc.property(placements.map(ofFewHeads), check), { numRuns: 8 })
    })
  })
})

function ofFewHeads(of: Placement): Placement {
  return { ...of, keyHeads: atMost(of.keyHeads, of.width * (of.length + of.others)) }
}

/** Computes the texts from `first` to below `end` in one batch. */
function attendTexts(compute: Compute, batch: Batch, first: number, end: number): Float32Array {
  const { width, keyHeads, group, lengths, window, threads, seed } = batch
  const rows = lengths.flatMap((length, text) =>
    text < first || text >= end ? [] : Array.from({ length }, (_, at) => ({ text, at })),
  )
  const numbers = (heads: number, salt: number) => {
    const found = new Float32Array(heads * rows.length * width)
    for (const [row, { text, at }] of rows.entries()) {
      const random = randomNumbers(seed + 1e4 * text + 10 * at + salt)
      for (let head = 0; head < heads; head++) {
        for (let d = 0; d < width; d++) found[(head * rows.length + row) * width + d] = exactInHalf(random)
      }
    }
    return found
  }
  const mask = rows.flatMap((row) =>
    rows.map(({ text, at }) => (text === row.text && Math.abs(at - row.at) <= window ? 0 : Number.NEGATIVE_INFINITY)),
  )
  const queries = numbers(keyHeads * group, 1)
  const out = new Float32Array(queries.length)
  const count = { rows: rows.length, cells: rows.length, heads: keyHeads * group, key_heads: keyHeads }
  compute(
    { type: F16, width, value_width: width, ...count, streams: 1, threads },
    {
      ...{ scale: width ** -0.5, queries, keys: halves(numbers(keyHeads, 2)), values: halves(numbers(keyHeads, 3)) },
      ...{ mask: halves(new Float32Array(mask)), out },
    },
  )
  return out
}

function expectSameBits(found: Float32Array, expected: Float32Array): void {
  const [one, other] = [found, expected].map(({ buffer, byteOffset, byteLength }) =>
    Buffer.from(buffer, byteOffset, byteLength),
  )
  expect(Buffer.compare(one!, other!)).toBe(0)
}

type Placement = typeof placements extends fc.Arbitrary<infer Of> ? Of : never
type Batch = typeof batches extends fc.Arbitrary<infer Of> ? Of : never

/** Numbers from one on. */
function stretch(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => first + i)
}

/** Random ones of `length + others` cells. */
function chosen(length: number, others: number, random: () => number): number[] {
  const keys = Float64Array.from({ length: length + others }, random)
  return stretch(0, length + others)
    .sort((a, b) => keys[a]! - keys[b]!)
    .slice(0, length)
}

/** Keys and values of a sequence, by head and token. */
interface Tokens {
  readonly keys: Uint8Array
  readonly values: Uint8Array
}

function tokensOf({ stored, keyHeads, length, width, seed }: Placement): Tokens {
  const [pack, exact] = stored === 'f16' ? [halves, exactInHalf] : [blocks, exactInBlock]
  const packed = (salt: number) => {
    const random = randomNumbers(seed + salt)
    return pack(new Float32Array(keyHeads * length * width).map((_, i) => exact(random, i)))
  }
  return { keys: packed(1), values: packed(2) }
}

/**
 * Computes the last rows of a sequence whose tokens lie in these cells.
 * @param spare how many times 256 cells follow that no row of the sequence sees.
 */
function attendPlaced(
  compute: Compute,
  of: Placement,
  tokens: Tokens,
  cells: readonly number[],
  spare: number,
): Float32Array {
  const { stored, width, keyHeads, group, length, window, done, before, after, threads, seed } = of
  const heads = keyHeads * group
  const last = Math.min(of.rows, length)
  const first = Math.floor(done * last)
  const rows = before + last - first + after
  const capacity = (Math.ceil((Math.max(...cells) + 1) / 256) + spare) * 256
  const [type, bytes] = stored === 'f16' ? [F16, width * 2] : [Q8_0, (width / BLOCK) * (BLOCK + 2)]
  const inCells = (own: Uint8Array) => {
    // Other cells hold others' tokens: here, copies of these.
    const all = new Uint8Array(keyHeads * capacity * bytes)
    for (let head = 0; head < keyHeads; head++) {
      const token = (i: number) => own.subarray((head * length + i) * bytes, (head * length + i + 1) * bytes)
      for (let cell = 0; cell < capacity; cell++) all.set(token(cell % length), (head * capacity + cell) * bytes)
      for (const [i, cell] of cells.entries()) all.set(token(i), (head * capacity + cell) * bytes)
    }
    return all
  }
  const mask = new Float32Array(rows * capacity).fill(Number.NEGATIVE_INFINITY)
  const queries = new Float32Array(rows * heads * width)
  const stamps = new BigUint64Array(capacity)
  const othersRandom = randomNumbers(seed + 3)
  for (let cell = 0; cell < capacity; cell++) stamps[cell] = BigInt(Math.floor(othersRandom() * 1e6))
  for (const [i, cell] of cells.entries()) stamps[cell] = BigInt(1000 * i + (cell % 999))
  for (let row = 0; row < rows; row++) {
    const token = length - last + first + row - before
    const isOwn = row >= before && row < rows - after
    if (isOwn)
      for (let i = Math.max(0, token + 1 - Math.ceil(window * length)); i <= token; i++)
        mask[row * capacity + cells[i]!] = 0
    else
      for (let cell = 0; cell < capacity; cell++)
        if (cell === 0 || othersRandom() < 0.3) mask[row * capacity + cell] = 0
    const random = isOwn ? randomNumbers(seed + 100 + token) : othersRandom
    for (let head = 0; head < heads; head++) {
      for (let d = 0; d < width; d++) queries[(head * rows + row) * width + d] = random() * 4 - 2
    }
  }
  const out = new Float32Array(queries.length)
  compute(
    { type, width, value_width: width, rows, heads, key_heads: keyHeads, cells: capacity, streams: 1, threads },
    {
      ...{
        scale: width ** -0.5,
        queries,
        keys: inCells(tokens.keys),
        values: inCells(tokens.values),
        mask: halves(mask),
        stamps,
        out,
      },
      cap: seed % 3 === 0 ? 2 : 0,
      sinks: seed % 2 === 0 ? null : new Float32Array(heads).map((_, head) => 4 * Math.sin(head)),
    },
  )
  return out
}

/** Computes a shape's random queries over its random cells. */
function attend(compute: Compute, shape: Shape): Outcome {
  const {
    stored,
    width,
    valueWidth = width,
    cap = 0,
    keyHeads,
    group,
    rows,
    cells,
    streams,
    threads,
    seen,
    seed,
  } = shape
  const heads = keyHeads * group
  let tensors = 0
  const numbers = (count: number, value: (random: () => number, i: number) => number) => {
    const random = randomNumbers(seed + ++tensors)
    return new Float32Array(count).map((_, i) => value(random, i))
  }
  const exact = stored === 'f16' ? exactInHalf : exactInBlock
  const keys = numbers(width * cells * keyHeads * streams, exact)
  const values = numbers(valueWidth * cells * keyHeads * streams, exact)
  // Cells are hidden in whole blocks, like those of other sequences, and singly. All rows see the first cell.
  const mask = numbers(cells * rows * streams, (random, i) => {
    if (seen === null || i % cells === 0) return 0
    if (seen === 'apart') {
      const [row, cell] = [Math.floor(i / cells) % rows, i % cells]
      return Math.floor((cell * APART) / cells) === row % APART ? 0 : Number.NEGATIVE_INFINITY
    }
    return Math.floor(i / 64) % 3 === 1 || random() >= seen ? Number.NEGATIVE_INFINITY : 0
  })
  const queries = new Float32Array(width * rows * heads * streams)
  for (let row = 0; row < rows; row++) {
    // A row's queries are the same, however many there are.
    const random = randomNumbers(seed + 100 + row)
    for (let head = 0; head < heads * streams; head++) {
      for (let d = 0; d < width; d++) queries[(head * rows + row) * width + d] = random() * 2 - 1
    }
  }
  const found = new Float32Array(valueWidth * rows * heads * streams)
  const scale = width ** -0.5
  const sinks = shape.hasSinks ? numbers(heads, (random) => random() * 8 - 4) : null
  const [type, pack] = stored === 'f16' ? [F16, halves] : [Q8_0, blocks]
  compute(
    { type, width, value_width: valueWidth, rows, heads, key_heads: keyHeads, cells, streams, threads },
    {
      ...{ scale, cap, sinks, queries, keys: pack(keys), values: pack(values), out: found },
      mask: seen === null ? null : halves(mask),
    },
  )
  const expected = (stream: number, row: number, head: number) => {
    const row0 = (stream * keyHeads + Math.floor(head / group)) * cells
    const query = ((stream * heads + head) * rows + row) * width
    const scores = Array.from({ length: cells }, (_, cell) => {
      let dot = 0
      for (let d = 0; d < width; d++) dot += queries[query + d]! * keys[(row0 + cell) * width + d]!
      const score = cap === 0 ? dot * scale : cap * Math.tanh((dot * scale) / cap)
      return score + mask[(stream * rows + row) * cells + cell]!
    })
    const all = sinks === null ? scores : [...scores, sinks[head]!]
    const highest = Math.max(...all)
    const weights = scores.map((score) => Math.exp(score - highest))
    const total = all.reduce((sum, score) => sum + Math.exp(score - highest), 0)
    return Array.from({ length: valueWidth }, (_, d) =>
      weights.reduce((sum, weight, cell) => sum + (weight / total) * values[(row0 + cell) * valueWidth + d]!, 0),
    )
  }
  return { found, expected }
}

/** The whole library computes it, through ggml. */
function throughGgml(path: string): Compute {
  const { declare, compute } = sumsOf(path, { ggmlBase, ggml })
  const attention = declare(
    `pointer ggml_flash_attn_ext(pointer context, pointer queries, pointer keys, pointer values, pointer? mask,
      float scale, float maxBias, float logitSoftcap)`,
  )
  const addSinks = declare('void ggml_flash_attn_ext_add_sinks(pointer attention, pointer sinks)')
  return ({ type, width, value_width, rows, heads, key_heads, cells, streams, threads }, data) => {
    const found = compute(threads, data.out.length, (context, filled) => {
      const result = attention(
        context,
        filled(F32, [width, rows, heads, streams], data.queries),
        filled(type, [width, cells, key_heads, streams], data.keys),
        filled(type, [value_width, cells, key_heads, streams], data.values),
        data.mask === null ? null : filled(F16, [cells, rows, 1, streams], data.mask),
        data.scale,
        0,
        data.cap ?? 0,
      )
      if (data.sinks) addSinks(result, filled(F32, [heads], data.sinks))
      return result
    })
    data.out.set(found)
  }
}

/** Blocks of 32 numbers of 8 bits, behind a factor in f16. */
function blocks(numbers: Float32Array): Uint8Array {
  const packed = new Int8Array((numbers.length / BLOCK) * (BLOCK + 2))
  const factors = new DataView(packed.buffer)
  for (let block = 0; block * BLOCK < numbers.length; block++) {
    const at = block * (BLOCK + 2)
    const factor = blockFactor(block)
    factors.setUint16(at, half(factor), true)
    for (let i = 0; i < BLOCK; i++) packed[at + 2 + i] = numbers[block * BLOCK + i]! / factor
  }
  return new Uint8Array(packed.buffer)
}

const BLOCK_FACTORS = [5, 6, 7, 8].map((power) => 2 ** -power)

/** A power of two. */
function blockFactor(block: number): number {
  return BLOCK_FACTORS[block % 4]!
}

/** A number that has 8 bits in the block where it stands. */
function exactInBlock(random: () => number, i: number): number {
  return Math.floor(random() * 256 - 128) * blockFactor(Math.floor(i / BLOCK))
}

/** A number between -2 and 2 that f16 represents exactly. */
function exactInHalf(random: () => number): number {
  return Math.floor(random() * 256 - 128) / 64
}
