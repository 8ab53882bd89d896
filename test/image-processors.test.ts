/**
 * Images of a model that vLLM serves have a size that its processor leaves as it is, and as many tokens as it counts. The counts
 * are those of vLLM's own processors (`test/support/vllm/record-image-tokens.ts`).
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { architectureOf } from '../src/families/processors/architectures.ts'
import { countImageTokens } from '../src/families/processors/image-processing.ts'
import { HubTokenizer } from '../src/inference/remote/tokens/hub-tokenizer.ts'
import { isPrepared, targetSize } from '../src/media/resize.ts'
import { readFolderHeaders } from '../src/models/read/hugging-face.ts'
import { limitsOf, ORIGINALS, PROCESSORS, writeProcessorFolder } from './support/vllm/processors.ts'

type Row = readonly [width: number, height: number, promptTokens: number, imageTokens: number | null]

const read = async (file: string) =>
  JSON.parse(await readFile(new URL(`support/vllm/${file}`, import.meta.url), 'utf8'))
const counted: Readonly<Record<string, readonly Row[]>> = await read('image-tokens.json')
const known: { readonly version: string; readonly architectures: readonly string[] } = await read('architectures.json')

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-processors-'))
})
afterAll(() => rm(folder, { recursive: true }))

describe.each(PROCESSORS)('images of $name', (facts) => {
  const path = () => join(folder, facts.name)
  const headers = () => readFolderHeaders(path(), { file: 'card.json', directory: folder })
  beforeAll(() => writeProcessorFolder(path(), facts))

  test('have sizes that the processor leaves as they are', async () => {
    const { images } = await headers()
    const limits = limitsOf(facts, images!.limits)
    const rows = counted[facts.name]!
    expect(rows).toHaveLength(ORIGINALS.length)
    for (const [index, original] of ORIGINALS.entries()) {
      const [width, height] = rows[index]!
      expect(targetSize(original, limits)).toEqual({ width, height })
      expect(isPrepared({ width, height }, limits)).toBe(true)
      expect(targetSize({ width, height }, limits)).toEqual({ width, height })
    }
  })

  test('have as many tokens as vLLM counts', async () => {
    const { images } = await headers()
    const limits = limitsOf(facts, images!.limits)
    const { before = '', after = '' } = images!.placeholder
    const around = new HubTokenizer(path()).encode([
      { text: before, trusted: true },
      { text: after, trusted: true },
    ])
    for (const [width, height, promptTokens, imageTokens] of counted[facts.name]!) {
      const { prompt, image } = countImageTokens(images!.tokens, limits, { width, height })
      const size = `${width}x${height}`
      expect({ size, prompt: prompt + around.length }).toEqual({ size, prompt: promptTokens })
      if (imageTokens !== null) expect(image).toBeGreaterThanOrEqual(imageTokens)
      expect(prompt).toBeGreaterThanOrEqual(image)
    }
  })

  test('fit the context that is kept for them', async () => {
    const { images } = await headers()
    const { maxTokens, tiles, rowEnds } = limitsOf(facts, images!.limits)
    for (const [, , promptTokens] of counted[facts.name]!) {
      // As `conversation/prompt/token-budget.ts` has it.
      const pieces = tiles === undefined ? 0 : Math.ceil(maxTokens / tiles.tokens)
      expect(promptTokens).toBeLessThanOrEqual((rowEnds ? 2 : 1) * maxTokens + 48 * pieces + 16)
    }
  })
})

test('every architecture that vLLM has for media is known, or refused with a sentence', async () => {
  const names = (await namesOfVllm()) ?? known.architectures
  for (const name of names) {
    const found = architectureOf(name)
    expect(found, `${name} is new in vLLM: add it to src/families/processors/architectures.ts`).not.toBeNull()
    if (typeof found!.images === 'string') expect(found!.images).toMatch(/^[a-z].{10,}[^.]$/i)
  }
})

test('the committed list of architectures is that of one version', async () => {
  expect(known.version).toMatch(/^\d+\.\d+\.\d+$/)
  expect(known.architectures).toEqual([...new Set(known.architectures)].toSorted())
  const names = await namesOfVllm()
  if (names !== null) expect(names.toSorted()).toEqual(known.architectures)
})

/** The names of a checkout or an installed package, the folder `vllm` of which the variable names; null without one. */
async function namesOfVllm(): Promise<string[] | null> {
  const source = process.env.LOOKOUT_VLLM_SOURCE
  if (source === undefined) return null
  const text = await readFile(join(source, 'model_executor/models/registry.py'), 'utf8')
  const [, table] = /^_MULTIMODAL_MODELS = \{\n([\s\S]*?)^\}/m.exec(text)!
  return [...table!.matchAll(/^ {4}"(\w+)":/gm)].map(([, name]) => name!)
}
