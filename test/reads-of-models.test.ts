import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { loadLocalCard, type ModelCard } from '../src/models/card.ts'
import { trusted, untrusted } from './support/local-engine.ts'
import { writeQuantisedModel } from './support/quantised-model.ts'
import { logProbsOf, read } from './support/reads.ts'
import { mediaOf } from './support/tiny-models/prompts.ts'
import { writeTinyModel } from './support/tiny-models/tiny-model.ts'
import { TINY_MODELS } from './support/tiny-models/tiny-models.ts'

/**
 * Numbers of a question must not depend on others, with any memory and kernels: M-RoPE, a sliding window with
 * images whose tokens attend to each other, SentencePiece, a recurrent state, quantised weights.
 */
const KINDS = ['qwen3vl', 'gemma3', 'gemma4', 'llava', 'lfm2-vl']

interface Subject {
  readonly card: ModelCard
  readonly turn: readonly [string, string]
  readonly media: readonly PromptPart[]
}

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-reads-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const subjects: readonly (readonly [string, () => Promise<Subject>])[] = [
  ...TINY_MODELS.filter(({ name }) => KINDS.includes(name)).map(
    (model) =>
      [
        model.name,
        async (): Promise<Subject> => ({
          card: await writeTinyModel(model, folder, { contextTokens: 2560 }),
          turn: model.turn,
          media: (mediaOf(model) ?? []).slice(0, 1),
        }),
      ] as const,
  ),
  [
    'the shipped model as Q8_0',
    async () => ({
      card: await loadLocalCard(await writeQuantisedModel(folder)),
      turn: ['<|im_start|>user\n', '<|im_end|>\n<|im_start|>assistant\n'],
      media: [],
    }),
  ],
]

describe.each(subjects)('%s', (_, write) => {
  let engine: LocalEngine
  let subject: Subject
  beforeAll(async () => {
    subject = await write()
    engine = await LocalEngine.start(subject.card)
  })
  afterAll(() => engine?.close())

  test.each([
    ['short', 1],
    ['long', 60],
  ])('reads each question after a %s prefix as if it were alone', async (_, times) => {
    const { turn, media } = subject
    const ask = (parts: readonly PromptPart[], ...replies: string[]): ReadQuestion => ({
      suffix: [...parts, trusted(turn[1])],
      replies,
    })
    const prefix = [trusted(turn[0]), ...media, untrusted('Look at all of it. '.repeat(times))]
    const questions = [
      ask([untrusted('Is it red?')], 'yes', 'no', 'yes it is'),
      ask([untrusted('And what of the large one at the left side of it?')], 'a', 'b', 'ab', 'abc', 'hello', 'x', 'y'),
      ask([untrusted('x')], 'yes'),
      ask([untrusted('This? '), ...media], 'one', 'two'),
      ask([untrusted('Is it blue?')], 'yes', 'no'),
    ]
    const readAll = async (chosen: readonly ReadQuestion[], organisation: string) =>
      logProbsOf(await read(engine, prefix, chosen, { organisation }))
    const together = await readAll(questions, 'a')
    expect(await readAll(questions.toReversed(), 'b')).toEqual(together.toReversed())
    for (const [index, question] of questions.entries()) {
      expect(await readAll([question], `alone ${index % 2}`), `question ${index}`).toEqual([together[index]])
    }
    expect(together.flat().every((logProb) => Number.isFinite(logProb) && logProb < 0)).toBe(true)
  })
})
