import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CARD } from '../../../../test/support/local-engine.ts'
import { loadLocalCard } from '../../../models/card.ts'
import { Context } from './context.ts'
import { loadNativeLibraries, type NativeLibraries } from './libraries.ts'
import { Model } from './model.ts'
import { locateNativeLibraries } from './native-paths.ts'

/** What rounding keys and values to 8 bits may change in a logit; other tokens in the prompt change it by far more. */
const ROUNDING = 0.5
const STEPS = 24

let libraries: NativeLibraries
let model: Model
let tokens: Int32Array

beforeAll(async () => {
  const { directory, engine } = await loadLocalCard(CARD)
  libraries = loadNativeLibraries(locateNativeLibraries())
  model = new Model(libraries.llama, `${directory}/${engine.model}`)
  const text = 'A red circle is left of a blue star. The circle is round. '.repeat(4)
  tokens = model.tokenize(`<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`, true)
})

afterAll(() => model?.close())

function open(kvType: 'f16' | 'q8_0'): Context {
  return new Context(libraries, model, { kvType, cells: 1024, sequences: 4, threads: 2, batchRows: 512 })
}

/** Computes tokens behind `position`. @returns the logits behind the last one. */
function decode(context: Context, some: ArrayLike<number>, position: number, sequence = 0): Float32Array {
  for (let i = 0; i < some.length; i++) context.batch.add(some[i]!, position + i, sequence, i === some.length - 1)
  context.decodeBatch()
  return context.logits(some.length - 1).slice()
}

function likeliest(logits: Float32Array): number {
  return logits.indexOf(logits.reduce((a, b) => Math.max(a, b)))
}

function distance(a: Float32Array, b: Float32Array): number {
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0)
}

test('keys and values of 8 bits give the same answer, in half of the memory', () => {
  const [full, half] = [open('f16'), open('q8_0')]
  try {
    let [a, b] = [decode(full, tokens, 0), decode(half, tokens, 0)]
    // The two compute differently, so that the comparison is of two things.
    expect(distance(a, b)).toBeGreaterThan(0)
    const other = Int32Array.from(tokens).fill(tokens[5]!, 10, 20)
    expect(distance(a, decode(full, other, 0, 1))).toBeGreaterThan(ROUNDING)
    for (let step = 0; step < STEPS; step++) {
      expect(distance(a, b)).toBeLessThan(ROUNDING)
      const token = likeliest(a)
      // Where the two best are as good as equal, either may win.
      expect(b[token]).toBeGreaterThan(Math.max(...b) - ROUNDING)
      ;[a, b] = [decode(full, [token], tokens.length + step), decode(half, [token], tokens.length + step)]
    }
    const share = half.sequenceBytes(0) / full.sequenceBytes(0)
    expect(share).toBeGreaterThan(0.5)
    expect(share).toBeLessThan(0.56)
  } finally {
    full.close()
    half.close()
  }
})

test.each(['f16', 'q8_0'] as const)('a sequence of %s goes on from where it was saved', (kvType) => {
  const context = open(kvType)
  try {
    decode(context, tokens, 0)
    const saved = context.saveSequence(0)
    expect(saved.length).toBe(context.sequenceBytes(0))
    const expected = decode(context, [tokens[1]!], tokens.length)
    context.clear()
    context.restoreSequence(2, saved)
    const found = decode(context, [tokens[1]!], tokens.length, 2)
    expect(distance(found, expected)).toBeLessThan(1e-3)
  } finally {
    context.close()
  }
})

describe.skipIf(locateNativeLibraries().kernels === null).each(['f16', 'q8_0'] as const)(
  'a sequence of %s computes the same, bit for bit,',
  (kvType) => {
    /** What a sequence computes that is alone. */
    let expected: Run

    beforeAll(() => {
      expected = run(kvType, () => {})
    })

    test('when it gets cells before its own', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT) decode(context, tokens.subarray(0, 40), 0, 1)
        if (step === 0) context.removeSequence(1)
      }
      expect(run(kvType, before)).toEqual(expected)
    })

    test('when others end beside it', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT)
          for (const [i, id] of [1, 2, 3].entries()) decode(context, tokens.subarray(0, 8 + i), 0, id)
        if (step % 5 === 0 && step < 15) context.removeSequence(1 + step / 5)
        if (step % 5 === 3) decode(context, [tokens[step]!], 20 + step, 3)
      }
      expect(run(kvType, before)).toEqual(expected)
    })

    test('when tokens are taken back', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT) decode(context, tokens.subarray(0, 5), 0, 1)
        if (step === 1) context.removeSequence(1)
        if (step < 0 || step % 3 !== 0) return
        decode(context, tokens.subarray(step, step + 4), tokens.length + step)
        context.removeSequence(0, tokens.length + step)
      }
      expect(run(kvType, before)).toEqual(expected)
    })

    test('when it goes on from a copy of a sequence whose cells were out of order', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT) decode(context, tokens.subarray(0, 40), 0, 1)
        if (step === 0) context.removeSequence(1)
        if (step !== 10) return
        const state = context.saveSequence(0)
        context.removeSequence(0)
        // Free cells are on both sides of another sequence.
        decode(context, tokens.subarray(0, 30), 0, 1)
        decode(context, tokens.subarray(0, 3), 0, 2)
        context.removeSequence(1)
        context.restoreSequence(0, state)
      }
      expect(run(kvType, before)).toEqual(expected)
    })

    test('when an image of it lies in cells that others have left', () => {
      const withImage = (others: number) => {
        const context = open(kvType)
        try {
          if (others > 0) decode(context, tokens.subarray(0, others), 0, 1)
          decode(context, tokens, 0)
          decodeImageRows(context, 0, 2)
          context.removeSequence(1)
          decodeImageRows(context, 2, 4)
          const state = context.saveSequence(0)
          context.restoreSequence(2, state)
          const behind = tokens.length + IMAGE_COLUMNS
          return [decode(context, [tokens[3]!], behind), decode(context, [tokens[3]!], behind, 2), state].map(digest)
        } finally {
          context.close()
        }
      }
      const alone = withImage(0)
      expect(alone[1]).toBe(alone[0])
      expect(withImage(40)).toEqual(alone)
    })

    test('when it goes on from another', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT) decode(context, tokens.subarray(0, 40), 0, 1)
        if (step === 0) context.removeSequence(1)
        if (step !== 12) return
        context.forkSequence(0, 2, tokens.length + step)
        context.removeSequence(0)
        context.forkSequence(2, 0, tokens.length + step)
        decode(context, [tokens[7]!], tokens.length + step, 2)
      }
      expect(run(kvType, before)).toEqual(expected)
    })
  },
)

/** Of an image behind the prompt, and how many tokens one has. */
const IMAGE_ROWS = 4
const IMAGE_COLUMNS = 5

/** Computes rows of it in one call. Their tokens have the same first position. */
function decodeImageRows(context: Context, from: number, to: number): void {
  const count = (to - from) * IMAGE_COLUMNS
  const positions = new Int32Array(4 * count)
  for (let i = 0; i < count; i++) {
    positions[i] = tokens.length
    positions[count + i] = tokens.length + from + Math.floor(i / IMAGE_COLUMNS)
    positions[2 * count + i] = tokens.length + (i % IMAGE_COLUMNS)
  }
  const embeddings = Float32Array.from({ length: count * model.embeddingSize }, (_, i) => Math.sin(i + 100 * from))
  context.decodeEmbeddings(embeddings, positions, count, 0, true)
}

/** Before the prompt is computed. */
const PROMPT = -1

/** Digests: of the logits behind the prompt and each token, and of what is saved in the end. */
interface Run {
  readonly logits: readonly string[]
  readonly state: string
}

/**
 * Computes a prompt in sequence 0, and then the same tokens in calls of their own.
 * @param before is called before the prompt (`PROMPT`) and before each token.
 */
function run(kvType: 'f16' | 'q8_0', before: (context: Context, step: number) => void): Run {
  const context = open(kvType)
  try {
    before(context, PROMPT)
    const logits = [digest(decode(context, tokens, 0))]
    for (let step = 0; step < STEPS; step++) {
      before(context, step)
      logits.push(digest(decode(context, [tokens[step + 3]!], tokens.length + step)))
    }
    return { logits, state: digest(context.saveSequence(0)) }
  } finally {
    context.close()
  }
}

function digest(data: NodeJS.ArrayBufferView): string {
  return createHash('sha256').update(data).digest('hex').slice(0, 8)
}
