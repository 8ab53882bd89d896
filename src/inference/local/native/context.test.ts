import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { CARD } from '../../../../test/support/local-engine.ts'
import { gemma3 } from '../../../../test/support/tiny-models/gemma.ts'
import { writeTinyModel } from '../../../../test/support/tiny-models/tiny-model.ts'
import { type LocalModelCard, loadLocalCard } from '../../../models/card.ts'
import { Context } from './context.ts'
import { loadNativeLibraries, type NativeLibraries } from './libraries.ts'
import { Model } from './model.ts'
import { locateNativeLibraries } from './native-paths.ts'

/** Permitted change of a logit by 8-bit keys and values; other tokens in the prompt change it far more. */
const ROUNDING = 0.5
const STEPS = 24

let folder: string
let libraries: NativeLibraries
let shipped: Model
let withWindows: Model
let tokens: Int32Array
/** Tokens that both models have. */
let prompt: Int32Array

beforeAll(async () => {
  const load = ({ directory, engine }: LocalModelCard) => new Model(libraries.llama, `${directory}/${engine.model}`)
  libraries = loadNativeLibraries(locateNativeLibraries())
  folder = await mkdtemp(join(tmpdir(), 'lookout-context-'))
  shipped = load(await loadLocalCard(CARD))
  withWindows = load(await writeTinyModel(gemma3, folder))
  const text = 'A red circle is left of a blue star. The circle is round. '.repeat(4)
  tokens = shipped.tokenize(`<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`, true)
  prompt = tokens.map((token) => token % withWindows.vocabularySize)
})

afterAll(async () => {
  shipped?.close()
  withWindows?.close()
  await rm(folder, { recursive: true, force: true })
})

type KvType = 'f16' | 'q8_0'

function open(kvType: KvType, model = shipped): Context {
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
    // The results differ, so both types were really used.
    expect(distance(a, b)).toBeGreaterThan(0)
    const other = Int32Array.from(tokens).fill(tokens[5]!, 10, 20)
    expect(distance(a, decode(full, other, 0, 1))).toBeGreaterThan(ROUNDING)
    for (let step = 0; step < STEPS; step++) {
      expect(distance(a, b)).toBeLessThan(ROUNDING)
      const token = likeliest(a)
      // If the two best are nearly equal, either may win.
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

test.each(['f16', 'q8_0'] as const)('a restored sequence of %s continues where it was saved', (kvType) => {
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

/** Models that track the order of cells differently: in one list, and in one per kind of layer. */
const SUBJECTS: [what: string, kvType: KvType, hasWindows: boolean][] = [
  ['f16', 'f16', false],
  ['q8_0', 'q8_0', false],
  ['f16 in sliding windows', 'f16', true],
]

describe.skipIf(locateNativeLibraries().kernels === null).each(SUBJECTS)(
  'a sequence of %s computes the same, bit for bit,',
  (_, kvType, hasWindows) => {
    const start = () => open(kvType, hasWindows ? withWindows : shipped)
    /** The result of a sequence alone. */
    let expected: Run

    beforeAll(() => {
      expected = run(start, () => {})
    })

    test('when it gets cells before its own', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT) decode(context, prompt.subarray(0, 40), 0, 1)
        if (step === 0) context.removeSequence(1)
      }
      expect(run(start, before)).toEqual(expected)
    })

    test('when others end beside it', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT)
          for (const [i, id] of [1, 2, 3].entries()) decode(context, prompt.subarray(0, 8 + i), 0, id)
        if (step % 5 === 0 && step < 15) context.removeSequence(1 + step / 5)
        if (step % 5 === 3) decode(context, [prompt[step]!], 10 + (step - 3) / 5, 3)
      }
      expect(run(start, before)).toEqual(expected)
    })

    test('when tokens are taken back', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT) decode(context, prompt.subarray(0, 5), 0, 1)
        if (step === 1) context.removeSequence(1)
        if (step < 0 || step % 3 !== 0) return
        decode(context, prompt.subarray(step, step + 4), prompt.length + step)
        context.removeSequence(0, prompt.length + step)
      }
      expect(run(start, before)).toEqual(expected)
    })

    test('when it goes on from a copy of a sequence whose cells were out of order', () => {
      const before = (context: Context, step: number) => {
        if (step === PROMPT) decode(context, prompt.subarray(0, 40), 0, 1)
        if (step === 0) context.removeSequence(1)
        if (step !== 10) return
        const state = context.saveSequence(0)
        context.removeSequence(0)
        // Free cells are on both sides of another sequence.
        decode(context, prompt.subarray(0, 30), 0, 1)
        decode(context, prompt.subarray(0, 3), 0, 2)
        context.removeSequence(1)
        context.restoreSequence(0, state)
      }
      expect(run(start, before)).toEqual(expected)
    })

    // Only the shipped model gives the tokens of an image the same position.
    test.skipIf(hasWindows)('when an image of it lies in cells that others have left', () => {
      const withImage = (others: number) => {
        const context = start()
        try {
          if (others > 0) decode(context, prompt.subarray(0, others), 0, 1)
          decode(context, prompt, 0)
          decodeImageRows(context, 0, 2)
          context.removeSequence(1)
          decodeImageRows(context, 2, 4)
          const state = context.saveSequence(0)
          context.restoreSequence(2, state)
          const behind = prompt.length + IMAGE_COLUMNS
          return [decode(context, [prompt[3]!], behind), decode(context, [prompt[3]!], behind, 2), state].map(digest)
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
        if (step === PROMPT) decode(context, prompt.subarray(0, 40), 0, 1)
        if (step === 0) context.removeSequence(1)
        if (step !== 12) return
        context.forkSequence(0, 2, prompt.length + step)
        context.removeSequence(0)
        context.forkSequence(2, 0, prompt.length + step)
        decode(context, [prompt[7]!], prompt.length + step, 2)
      }
      expect(run(start, before)).toEqual(expected)
    })
  },
)

/** Tokens in a row of an image. */
const IMAGE_COLUMNS = 5

/** Computes rows of an image behind the prompt in one call. Their tokens have the same first position. */
function decodeImageRows(context: Context, from: number, to: number): void {
  const count = (to - from) * IMAGE_COLUMNS
  const positions = new Int32Array(4 * count)
  for (let i = 0; i < count; i++) {
    positions[i] = prompt.length
    positions[count + i] = prompt.length + from + Math.floor(i / IMAGE_COLUMNS)
    positions[2 * count + i] = prompt.length + (i % IMAGE_COLUMNS)
  }
  const embeddings = Float32Array.from({ length: count * shipped.embeddingSize }, (_, i) => Math.sin(i + 100 * from))
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
 * @param start makes a context, which is closed.
 * @param before is called before the prompt (`PROMPT`) and before each token.
 */
function run(start: () => Context, before: (context: Context, step: number) => void): Run {
  const context = start()
  try {
    before(context, PROMPT)
    const logits = [digest(decode(context, prompt, 0))]
    for (let step = 0; step < STEPS; step++) {
      before(context, step)
      logits.push(digest(decode(context, [prompt[step + 3]!], prompt.length + step)))
    }
    return { logits, state: digest(context.saveSequence(0)) }
  } finally {
    context.close()
  }
}

function digest(data: NodeJS.ArrayBufferView): string {
  return createHash('sha256').update(data).digest('hex').slice(0, 8)
}

/** Processors that a thread of this process may use; none for one that has ended. */
async function processorsOf(thread: string | number): Promise<readonly number[]> {
  const status = await readFile(`/proc/self/task/${thread}/status`, 'utf8').catch(() => '')
  const ranges = /^Cpus_allowed_list:\s*(\S+)/m.exec(status)?.[1]?.split(',') ?? []
  return ranges.flatMap((range) => {
    const [from, to = from] = range.split('-').map(Number)
    return Array.from({ length: to! - from! + 1 }, (_, index) => from! + index)
  })
}

const { kernels } = locateNativeLibraries()

/** Those of `kernels/thread-team.cpp`. */
const [SHORT_MS, SHORTS] = [5, 4]

test.runIf(kernels !== null && availableParallelism() > 1)(
  'after a pause, another thread keeps off the processor of the one that begins, in short computations',
  async ({ skip }) => {
    const own = await processorsOf(process.pid)
    /** How many of its processors the thread that may use the fewest lacks. */
    const most = async () => {
      const others = await Promise.all((await readdir('/proc/self/task')).map(processorsOf))
      return Math.max(...others.filter(({ length }) => length > 0).map(({ length }) => own.length - length))
    }
    const context = open('f16')
    const compute = (some: ArrayLike<number>) => {
      context.clear()
      decode(context, some, 0)
    }
    const [short, long] = [tokens.subarray(0, 1), tokens]
    /** As many short computations in a row as it takes, each after a pause. A busy machine may make any of them a long one. */
    const beBrief = async () => {
      // The first one comes without a pause.
      let shorts = -1
      const isBrief = () => {
        const began = performance.now()
        compute(short)
        shorts = performance.now() - began < SHORT_MS ? shorts + 1 : 0
        return shorts > SHORTS
      }
      await vi
        .waitUntil(isBrief, { timeout: 60_000 })
        .catch(() => skip('this machine is too busy for short computations'))
    }
    const mostAfter = (...computations: readonly ArrayLike<number>[]) => {
      for (const some of computations) compute(some)
      return most()
    }
    try {
      await beBrief()
      expect(await most()).toBe(1)
      await expect.poll(() => mostAfter(short, short)).toBe(0)
      await beBrief()
      expect(await most()).toBe(1)
      await expect.poll(() => mostAfter(long)).toBe(0)
    } finally {
      context.close()
    }
  },
)
