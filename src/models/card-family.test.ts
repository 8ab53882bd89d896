import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FakeEngine } from '../../test/support/fake-engine.ts'
import { string, uint32, writeGguf } from '../../test/support/gguf-writer.ts'
import { TIMED_PAIRS } from '../families/video-layout.ts'
import { ModelRegistry } from '../inference/catalog/registry.ts'
import { type LocalModelCard, loadLocalCard } from './card.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-families-'))
  await header('qwen3vl.gguf', { 'general.architecture': 'qwen3vl' })
  await header('qwen2vl.gguf', { 'general.architecture': 'qwen2vl' })
})
afterAll(() => rm(directory, { recursive: true }))

/** A GGUF file without tensors. */
async function header(name: string, values: Record<string, string | number>): Promise<void> {
  const metadata = Object.entries(values).map(
    ([key, value]) => [key, typeof value === 'string' ? string(value) : uint32(value)] as const,
  )
  await writeGguf(join(directory, name), { metadata: new Map(metadata), tensors: [] })
}

const served = {
  id: 'a',
  name: 'A',
  created: 0,
  capabilities: ['tool_calling'],
  modalities: ['text', 'image', 'video'],
  outputFormats: ['text', 'box'],
  reasoning: true,
  maxContextTokens: 1024,
  maxOutputTokens: 1024,
}
const plain = {
  name: 'A',
  license: 'MIT',
  ownedBy: 'a',
  serves: [served],
  engine: { type: 'local', model: 'model.gguf', projector: 'mmproj.gguf', contextTokens: 1024 },
}
const limits = { pixelsPerToken: 32, minTokens: 64, maxTokens: 256 }

async function load(fields: object): Promise<LocalModelCard> {
  const file = join(directory, 'card.json')
  await writeFile(file, JSON.stringify({ ...plain, ...fields }))
  return loadLocalCard(file)
}

describe('a card that names a family', () => {
  test('leaves the rest to it', async () => {
    expect(await load({ family: 'qwen3-vl', image: limits })).toMatchObject({
      family: 'qwen3-vl',
      image: limits,
      video: {
        ...{ pixelsPerToken: 32, minTokens: 128, maxTokens: 256, framesPerSecond: 2, maxFrames: 128 },
        layout: { framesPerGrid: 2, timestamp: '<{seconds} seconds>' },
      },
      dialect: 'qwen3-vl',
      toolSyntax: 'hermes',
      thought: { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n', exemplars: false },
    })
    const { engine } = await load({ family: 'mistral', image: limits, video: undefined, serves: [still] })
    expect(engine.printedTokens).toEqual(['[TOOL_CALLS]', '[ARGS]'])
  })

  test('has the last word in every field', async () => {
    const fields = {
      family: 'qwen3-vl',
      image: { ...limits, pixelsPerToken: 28 },
      video: { maxFrames: 8, layout: { framesPerGrid: 1, timestamp: null } },
      dialect: 'markup',
      toolSyntax: 'mistral',
      thought: { exemplars: true },
    }
    expect(await load(fields)).toMatchObject({
      image: fields.image,
      video: { pixelsPerToken: 28, maxTokens: 256, maxFrames: 8, layout: { framesPerGrid: 1, timestamp: null } },
      dialect: 'markup',
      toolSyntax: 'mistral',
      thought: { begin: '<think>\n', exemplars: true },
    })
    const engine = { ...plain.engine, printedTokens: [] }
    expect((await load({ family: 'mistral', image: limits, engine, serves: [still] })).engine.printedTokens).toEqual([])
  })

  test('gets no limits of what it does not serve, and no tools that it does not promise', async () => {
    const serves = [{ ...served, capabilities: [], modalities: ['text'], outputFormats: ['text'] }]
    const card = await load({ family: 'qwen3-vl', serves })
    expect([card.image, card.video, card.toolSyntax]).toEqual([undefined, undefined, undefined])
    expect((await load({ family: 'mistral', serves })).engine.printedTokens).toEqual([])
  })

  test('must give what its family does not know', async () => {
    const failure = /^Model card .+card\.json: video\.layout: expected object, received undefined$/
    const video = { ...limits, framesPerSecond: 1, maxFrames: 8 }
    await expect(load({ family: 'gemma3', image: limits, video })).rejects.toThrow(failure)
    const unlimited = await load({ family: 'molmo', serves: [{ ...still, outputFormats: ['text'] }] })
    expect(unlimited.image).toBeUndefined()
    expect(() => new ModelRegistry().add(unlimited, new FakeEngine())).toThrow(/serves\[0\]\.modalities: 'image'/)
  })

  test('may not promise what a family without a dialect cannot say', async () => {
    const card = await load({ family: 'smolvlm', image: limits, serves: [still], toolSyntax: 'hermes' })
    expect(card.dialect).toBeNull()
    const message = /card\.json: serves\[0\]\.outputFormats: 'box' is not supported by a model without a dialect/
    expect(() => new ModelRegistry().add(card, new FakeEngine())).toThrow(message)
  })

  test('names one that there is', async () => {
    await expect(load({ family: 'qwen' })).rejects.toThrow(/card\.json: family: Invalid option: expected one of /)
  })
})

describe('without a name, the family is', () => {
  test('none for a card that gives a dialect: it says everything itself', async () => {
    const card = await load({ dialect: 'gemma', image: limits, video: { ...limits, framesPerSecond: 1, maxFrames: 8 } })
    expect(card).toMatchObject({ family: null, dialect: 'gemma', image: limits, video: { layout: TIMED_PAIRS } })
    expect([card.toolSyntax, card.thought]).toEqual([undefined, undefined])
    expect((await load({ dialect: 'gemma' })).video).toBeUndefined()
  })

  test.each([
    ['qwen2vl.gguf', { 'clip.projector_type': 'qwen2.5vl_merger' }, 'qwen2.5-vl', 28],
    ['qwen2vl.gguf', { 'clip.projector_type': 'qwen2vl_merger' }, 'qwen2-vl', 28],
    ['qwen3vl.gguf', { 'clip.vision.projector_type': 'qwen3vl_merger' }, 'qwen3-vl', 32],
  ])('read from the files: %s, %j', async (model, encoder, family, pixelsPerToken) => {
    await header('mmproj.gguf', encoder)
    const serves = [{ ...served, capabilities: [] }]
    const card = await load({ engine: { ...plain.engine, model }, serves })
    expect(card).toMatchObject({ family, image: { pixelsPerToken }, video: { pixelsPerToken } })
  })

  test('read from the files, with the numbers of its images', async () => {
    await header('mmproj.gguf', {
      'clip.vision.projector_type': 'qwen3vl_merger',
      'clip.vision.patch_size': 14,
      'clip.vision.image_max_pixels': 2000 * 28 ** 2,
    })
    const engine = { ...plain.engine, model: 'qwen3vl.gguf' }
    const image = { pixelsPerToken: 28, minTokens: 1024, maxTokens: 2000 }
    expect(await load({ engine })).toMatchObject({ image, video: { pixelsPerToken: 28 } })
    expect(await load({ engine, family: 'qwen3-vl', image: { minTokens: 8 } })).toMatchObject({
      image: { ...image, minTokens: 8 },
    })
  })

  test('not to be had: the card names the field that is needed then', async () => {
    const engine = { ...plain.engine, model: 'qwen3vl.gguf' }
    await header('mmproj.gguf', { 'clip.projector_type': 'no-such' })
    await expect(load({ engine })).rejects.toThrow(
      /^Model card .+card\.json: dialect: is needed, .+ the image projector 'no-such' and the architecture 'qwen3vl'/,
    )
    await expect(load({ engine, dialect: 'markup', image: limits })).resolves.toMatchObject({ family: null })
    const { projector: _, ...text } = plain.engine
    await header('text.gguf', { 'general.architecture': 'llama' })
    await expect(load({ engine: { ...text, model: 'text.gguf' } })).rejects.toThrow(/: dialect: .* no image projector/)
    await expect(load({ engine: text })).rejects.toThrow(/: engine\.model: the file .+model\.gguf does not exist$/)
    const wrong = { ...engine, projector: 'card.json' }
    await expect(load({ engine: wrong })).rejects.toThrow(/: engine\.projector: cannot read .+card\.json: /)
  })
})

const still = { ...served, modalities: ['text', 'image'] }
