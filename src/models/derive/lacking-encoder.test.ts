import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { writeHeader } from '../../../test/support/model-header.ts'
import { readCard } from '../card.ts'
import { modelHeaders } from '../read/model-headers.ts'
import { lackingEncoder } from './lacking-encoder.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-lacking-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

test.each([
  ['270M', 18, false],
  ['1B', 26, false],
  ['4B', 34, true],
  ['27B', 62, true],
])('Gemma 3 %s, with %i layers and no encoder, lacks one: %j', async (name, layers, lacks) => {
  const path = join(directory, `${name}.gguf`)
  await writeHeader(path, {
    'general.architecture': 'gemma3',
    'gemma3.block_count': layers,
    'gemma3.context_length': 32_768,
    'gemma3.embedding_length': 640,
    'gemma3.attention.head_count': 4,
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': ['<bos>', '<start_of_turn>', '<end_of_turn>'],
  })
  const { card, written } = await readCard(path)
  const lacking = await lackingEncoder({ ...card, written }, modelHeaders(card.engine, card))
  expect(lacking?.message ?? '').toMatch(lacks ? /^Models of Gemma 3 take images, but/ : /^$/)
})
