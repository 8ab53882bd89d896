import { afterAll, beforeAll, expect, test } from 'vitest'
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
