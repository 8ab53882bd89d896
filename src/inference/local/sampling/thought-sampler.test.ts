import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  assistant,
  branch,
  CARD,
  collect,
  GREEDY,
  generate,
  question,
  RANDOM,
  trusted,
} from '../../../../test/support/local-engine.ts'
import { loadCard } from '../../../models/card.ts'
import type { Thought } from '../../contract/work.ts'
import { LocalEngine } from '../host/local-engine.ts'
import { type Ask, chooseFrom, LIKELIEST } from '../native/choice.ts'
import type { Context } from '../native/context.ts'
import { PLAIN_OPERATIONS } from '../native/logits-operations.ts'
import { DrawingSampler } from './drawing-sampler.ts'
import { ThoughtSampler } from './thought-sampler.ts'

const thought: Thought = { end: '</think>', closing: '\n</think>\n\n', budget: 16 }

describe('the sampler', () => {
  const END = 0
  const context = null as unknown as Context

  /** Tokens are pieces of bytes, numbered as they come; 0 ends the turn. */
  class Script {
    readonly pieces: Uint8Array[] = [new Uint8Array()]
    readonly accepted: number[] = []
    readonly #script: number[]

    constructor(script: readonly (Uint8Array | null)[]) {
      this.#script = script.map((piece) => (piece === null ? END : this.#add(piece)))
    }

    /** The output: the thought's samples, then its closing tokens, then R for the reply. */
    run(budget: number, maxTokens = Number.POSITIVE_INFINITY): { text: string; interrupted: boolean } {
      const sampler = new ThoughtSampler({
        thought: { ...thought, budget },
        maxTokens,
        model: {
          piece: (token) => this.pieces[token]!,
          isEndOfGeneration: (token) => token === END,
          tokenize: (text) => Int32Array.from(Buffer.from(text), (byte) => this.#add(Uint8Array.of(byte))),
        },
        free: {
          ask: () => LIKELIEST,
          choose: () => this.#script.shift() ?? END,
          accept: (token) => void this.accepted.push(token),
        },
        reply: { ask: () => null, sample: () => -1 },
      })
      const bytes: number[] = []
      for (;;) {
        const token = sampler.sample(context, 0)
        if (token === -1) break
        bytes.push(...this.pieces[token]!)
      }
      return { text: Buffer.from(bytes).toString(), interrupted: sampler.thoughtInterrupted }
    }

    #add(piece: Uint8Array): number {
      return this.pieces.push(piece) - 1
    }
  }

  const cut = (text: string, lengths: readonly number[]): Uint8Array[] => {
    const bytes = Buffer.from(text)
    const pieces: Uint8Array[] = []
    for (let at = 0, i = 0; at < bytes.length; i++) {
      const length = lengths.length === 0 ? 1 : lengths[i % lengths.length]!
      pieces.push(bytes.subarray(at, at + length))
      at += length
    }
    return pieces
  }
  const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 6 })

  test.each(['Hm.\n</think>', 'Hm.\n</think>\n', 'Hm.\n</think>\n\n', '</think>'])(
    'a thought that ends by itself gets the rest of its closing, however it is cut: %j',
    (text) => {
      fc.assert(
        fc.property(lengths, (lengths) => {
          const written = new Script(cut(text, lengths)).run(1000)
          expect(written).toEqual({ text: `${text.trimEnd()}\n\n`, interrupted: false })
        }),
      )
    },
  )

  test('text behind the mark in the same token stays', () => {
    expect(new Script([Buffer.from('a</think>b')]).run(9).text).toBe('a</think>b')
  })

  test('the budget closes the thought, and the closing tokens count as sampled', () => {
    const script = new Script(cut('never ending', []))
    expect(script.run(5)).toEqual({ text: 'never\n</think>\n\n', interrupted: true })
    expect(script.accepted).toHaveLength('never\n</think>\n\n'.length)
    expect(new Script([]).run(0)).toEqual({ text: '\n</think>\n\n', interrupted: true })
  })

  test('no character is cut, and an endless one is not awaited', () => {
    expect(new Script(cut('äöü', [])).run(3).text).toBe('äö\n</think>\n\n')
    expect(new Script(cut('a😀b', [])).run(2).text).toBe('a😀\n</think>\n\n')
    const broken = Array.from({ length: 20 }, () => Uint8Array.of(0xf0))
    expect(new Script(broken).run(2).text).toHaveLength(6 + '\n</think>\n\n'.length)
  })

  test.each([40, 20, 18, 17])('%i tokens leave room for the closing tokens and one of the reply', (most) => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 60 }), fc.nat(60), (text, budget) => {
        const written = new Script(cut(text.replaceAll('<', ''), [])).run(budget, most)
        expect(written.text.endsWith('\n</think>\n\n')).toBe(true)
        expect(Buffer.byteLength(written.text)).toBeLessThan(most)
      }),
    )
  })

  test('a turn that ends within its thought continues with the reply', () => {
    const script = new Script([Buffer.from('Hm'), null])
    expect(script.run(9)).toEqual({ text: 'Hm\n</think>\n\n', interrupted: false })
    // The end is not written, so no penalty counts it.
    expect(script.accepted).not.toContain(END)
    expect(script.accepted).toHaveLength(1 + '\n</think>\n\n'.length)
  })
})

test('an end of turn that is not written leaves penalties as they are', () => {
  // 0 ends the turn, 1 and 3 are words, 2 is the mark.
  const pieces = ['', 'a', '</think>', 'b']
  const free = new DrawingSampler({ ...GREEDY, presencePenalty: 2 }, 1)
  const sampler = new ThoughtSampler({
    thought: { ...thought, closing: '</think>' },
    maxTokens: 200,
    model: {
      tokenize: () => Int32Array.of(2),
      piece: (token) => Buffer.from(pieces[token]!),
      isEndOfGeneration: (token) => token === 0,
    },
    free,
    reply: free,
  })
  const sample = (...logits: number[]) => {
    const rows = { choose: (_row: number, ask: Ask) => chooseFrom(PLAIN_OPERATIONS, Float32Array.from(logits), ask) }
    return sampler.sample(rows, 0)
  }
  expect([sample(5, 0, 0, 0), sample(0, 5, 0, 0), sample(5, 0, 0, 4)]).toEqual([2, 1, 0])
})

describe('the engine', () => {
  let engine: LocalEngine
  beforeAll(async () => {
    engine = await LocalEngine.start(await loadCard(CARD), { seed: 3 })
  })
  afterAll(() => engine?.close())

  test('a thought is free, and the constraint applies to the reply after it', async () => {
    const work = [
      branch({ n: 2, maxTokens: 60, sampling: RANDOM, thought, constraint: { type: 'regex', pattern: '[0-9]{3}' } }),
      branch({ n: 1, maxTokens: 60, sampling: RANDOM, constraint: { type: 'regex', pattern: '[0-9]{3}' } }),
    ]
    const { texts, finishes } = await collect(
      await generate(engine, [...question, assistant, trusted('<think>\n')], work),
    )
    for (const key of ['0.0', '0.1']) {
      expect(texts[key]).toMatch(/<\/think>\n\n[0-9]{3}$/)
      expect(texts[key]).not.toMatch(/\ufffd\s*<\/think>/)
    }
    expect(texts['1.0']).toMatch(/^[0-9]{3}$/)
    for (const { reason } of finishes) expect(reason).toBe('stop')
    const interrupted = (of: number) => finishes.flatMap((f) => (f.branch === of ? [f.thoughtInterrupted] : []))
    // Now and then a random thought ends by itself.
    expect(interrupted(0)).toContain(true)
    expect(interrupted(1)).toEqual([undefined])
  })

  test('its tokens are tokens of the completion', async () => {
    const cut = branch({ maxTokens: 16, sampling: RANDOM, thought })
    const { texts, finishes } = await collect(await generate(engine, [...question, trusted('<think>\n')], [cut]))
    expect(texts['0.0']).toContain('</think>')
    expect(finishes[0]!.completionTokens).toBeLessThanOrEqual(16)
  })
})
