import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CARD } from '../../../../test/support/local-engine.ts'
import { CardError, loadCard, type ModelCard } from '../../../models/card.ts'
import { LocalEngine } from './local-engine.ts'
import { describeModel } from './model-files.ts'

let directory: string
let card: ModelCard
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-files-'))
  card = await loadCard(CARD)
})
afterAll(() => rm(directory, { recursive: true }))

const withFiles = (files: Partial<ModelCard['engine']>): ModelCard => ({
  ...card,
  engine: { ...card.engine, ...files },
})

test('the files say of the model what the engine says when it has loaded it', async () => {
  const { info, memoryBytes } = await describeModel(card)
  const engine = await LocalEngine.start(card)
  try {
    // Of the vocabulary, the files' heads are read no further than its size.
    const { longestTokenBytes } = engine.info
    expect({ ...info, longestTokenBytes }).toEqual(engine.info)
    const { residentBytes } = await engine.stats()
    // An estimate, and none that is too low by much: a limit must be kept.
    expect(memoryBytes).toBeGreaterThan(0.8 * residentBytes)
    expect(memoryBytes).toBeLessThan(3 * residentBytes)
  } finally {
    await engine.close()
  }
})

test('keys and values are counted for every cell', async () => {
  const large = await describeModel(card)
  const serves = card.serves.map((served) => ({ ...served, maxContextTokens: 16_384 }))
  const small = await describeModel({ ...withFiles({ contextTokens: 16_384 }), serves })
  // 6 layers, 2 heads of 64 + 64 numbers in 16 bits, half as much for the prefix cache; and 512 rows of a 32-bit mask.
  expect(large.memoryBytes - small.memoryBytes).toBe(16_384 * (1.5 * 6 * 2 * 128 * 2 + 512 * 4))
})

test('a chat template of the card takes the place of the one in the weights', async () => {
  const chatTemplate = join(directory, 'template.jinja')
  await writeFile(chatTemplate, '{{ messages[0].content }}')
  expect((await describeModel(withFiles({ chatTemplate }))).info.chatTemplate).toBe('{{ messages[0].content }}')
  const engine = await LocalEngine.start(withFiles({ chatTemplate }))
  expect(engine.info.chatTemplate).toBe('{{ messages[0].content }}')
  await engine.close()
})

describe('names the field of the card', () => {
  type Files = Partial<ModelCard['engine']>
  test.each<[string, Files | ((shipped: ModelCard['engine']) => Files), RegExp]>([
    [
      'a file that is not there',
      { model: 'none.gguf' },
      /card\.json: engine\.model: the file .+none\.gguf is not there$/,
    ],
    ['a folder', { model: '.' }, /: engine\.model: the file .+ is not there$/],
    ['a part that is not there', { model: 'm-00001-of-00002.gguf' }, /the file .+m-00001-of-00002\.gguf is not there$/],
    [
      'no GGUF file',
      { model: 'card.json' },
      /: engine\.model: .+card\.json cannot be read: the file is not a GGUF file$/,
    ],
    [
      'an encoder in place of a model',
      ({ projector }) => ({ model: projector! }),
      /: engine\.model: .+ is not a language model$/,
    ],
    ['no encoder', { projector: 'README.md' }, /: engine\.projector: .+README\.md cannot be read: /],
    ['a model in place of an encoder', ({ model }) => ({ projector: model }), /: image: .* hold no image encoder$/],
    ['no template', { chatTemplate: 'none' }, /: engine\.chatTemplate: the file .+none cannot be read: ENOENT/],
    [
      'fewer cells than promised',
      { contextTokens: 1024 },
      /: serves\[0\]\.maxContextTokens: promises 32768 context tokens/,
    ],
  ])('%s', async (_name, files, message) => {
    const failure = describeModel(withFiles(typeof files === 'function' ? files(card.engine) : files))
    await expect(failure).rejects.toThrow(message)
    await expect(failure).rejects.toBeInstanceOf(CardError)
  })
})
