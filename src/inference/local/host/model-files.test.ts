import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readGguf, uint32, writeGguf } from '../../../../test/support/gguf-writer.ts'
import { CARD } from '../../../../test/support/local-engine.ts'
import { CardError, type LocalModelCard, loadLocalCard } from '../../../models/card.ts'
import { LocalEngine } from './local-engine.ts'
import { describeModel } from './model-files.ts'

let directory: string
let card: LocalModelCard
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-files-'))
  card = await loadLocalCard(CARD)
})
afterAll(() => rm(directory, { recursive: true }))

const withFiles = (files: Partial<LocalModelCard['engine']>): LocalModelCard => ({
  ...card,
  engine: { ...card.engine, ...files },
})

test('the description of the files agrees with the loaded engine', async () => {
  const { info, memoryBytes } = await describeModel(card)
  const engine = await LocalEngine.start(card)
  try {
    // The headers give the size of the vocabulary, but its tokens are not read.
    const { longestTokenBytes } = engine.info
    expect({ ...info, longestTokenBytes }).toEqual(engine.info)
    expect(info.embeddingLength).toBe(256)
    const { residentBytes } = await engine.stats()
    // The estimate must not be much too low, or the memory limit would not hold. It counts cells of the KV cache that have
    // not been used and take no memory yet.
    expect(memoryBytes).toBeGreaterThan(0.8 * residentBytes)
    expect(memoryBytes).toBeLessThan(6 * residentBytes)
  } finally {
    await engine.close()
  }
})

test('keys and values are counted for every cell', async () => {
  const settings = { prefixCacheBytes: 0, encoderCacheBytes: 0 }
  const large = await describeModel(card, settings)
  const serves = card.serves.map((served) => ({ ...served, maxContextTokens: 16_384 }))
  const small = await describeModel({ ...withFiles({ contextTokens: 16_384 }), serves }, settings)
  // 6 layers, 2 heads of 64 + 64 numbers in 16 bits; and 512 rows of a 32-bit mask.
  expect(large.memoryBytes - small.memoryBytes).toBe(16_384 * (6 * 2 * 128 * 2 + 512 * 4))
})

test('keys and values of 8 bits count as such', async () => {
  const settings = { prefixCacheBytes: 0, encoderCacheBytes: 0 }
  const [full, half] = [
    await describeModel(card, settings),
    await describeModel(withFiles({ kvType: 'q8_0' }), settings),
  ]
  // Each 32 numbers take 34 bytes instead of 64.
  expect(full.memoryBytes - half.memoryBytes).toBe(card.engine.contextTokens * 6 * 2 * 128 * (2 - 34 / 32))
})

test('keys and values of 8 bits are rejected if heads are not whole blocks', async () => {
  const { metadata } = await readGguf(join(card.directory, card.engine.model))
  const model = join(directory, 'odd-heads.gguf')
  await writeGguf(model, {
    metadata: new Map([...metadata, ['qwen3vl.attention.key_length', uint32(80)]]),
    tensors: [],
  })
  await describeModel(withFiles({ model }))
  await expect(describeModel(withFiles({ model, kvType: 'q8_0' }))).rejects.toThrow(
    /card\.json: engine\.kvType: .*odd-heads\.gguf does not allow q8_0: its attention heads have 80 numbers/,
  )
})

test('the caches count with their configured sizes', async () => {
  const none = await describeModel(card, { prefixCacheBytes: 0, encoderCacheBytes: 0 })
  const settings = { prefixCacheBytes: 2 ** 30, encoderCacheBytes: 2 ** 20 }
  const both = await describeModel(card, settings)
  expect(both.memoryBytes - none.memoryBytes).toBe(2 ** 30 + 2 ** 20)
  const ofCard = await describeModel(withFiles({ prefixCache: 100 }), settings)
  expect(ofCard.caches).toEqual({ prefixCacheBytes: 100 * 2 ** 20, encoderCacheBytes: 2 ** 20 })
})

test("the card's chat template replaces the one in the weights", async () => {
  const chatTemplate = join(directory, 'template.jinja')
  const source = '{{ tools | tojson }}{{ messages | tojson }}'
  await writeFile(chatTemplate, source)
  expect((await describeModel(withFiles({ chatTemplate }))).info.chatTemplate).toBe(source)
  const engine = await LocalEngine.start(withFiles({ chatTemplate }))
  expect(engine.info.chatTemplate).toBe(source)
  await engine.close()
})

describe('an error names the field of the card', () => {
  type Files = Partial<LocalModelCard['engine']>
  test.each<[string, Files | ((shipped: LocalModelCard['engine']) => Files), RegExp]>([
    ['a missing file', { model: 'none.gguf' }, /card\.json: engine\.model: the file .+none\.gguf does not exist$/],
    ['a folder', { model: '.' }, /: engine\.model: the file .+ does not exist$/],
    ['a missing part', { model: 'm-00001-of-00002.gguf' }, /the file .+m-00001-of-00002\.gguf does not exist$/],
    [
      'a file that is not GGUF',
      { model: 'card.json' },
      /: engine\.model: cannot read .+card\.json: the file is not a GGUF file$/,
    ],
    [
      'an encoder in place of a model',
      ({ projector }) => ({ model: projector! }),
      /: engine\.model: .+ is not a language model$/,
    ],
    ['a projector that is not GGUF', { projector: 'README.md' }, /: engine\.projector: cannot read .+README\.md: /],
    ['a model in place of an encoder', ({ model }) => ({ projector: model }), /: image: .* contain no image encoder$/],
    ['a missing template', { chatTemplate: 'none' }, /: engine\.chatTemplate: cannot read the file .+none: ENOENT/],
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
