import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { picture } from '../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import type { ImagePart } from '../../contract/parts.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { Model } from '../native/model.ts'
import type { Mtmd } from '../native/mtmd.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { Projector } from '../native/projector.ts'
import { EncoderCache } from './encoder-cache.ts'
import { type MediaTokens, PromptReader, type TokenisedPrompt } from './prompt-tokens.ts'

/** As with a device: other threads prepare pictures before their prompts are read. */

const SIZE = 256
const LARGE = 1280

let model: Model
let projector: Projector
let reader: PromptReader
/** Counts of pictures prepared on this thread and on others, and of freed prompts and pictures. */
const calls = { here: 0, elsewhere: 0, open: 0 }
/** Called when another thread is about to prepare one. */
let begins = () => {}

beforeAll(async () => {
  const { llama, mtmd } = loadNativeLibraries(locateNativeLibraries())
  const { tokenize_from_parts: tokenize, input_chunks_init: init, input_chunks_free: free } = mtmd!
  let hasPixels = false
  const here: typeof tokenize = (...args) => {
    if (hasPixels) calls.here++
    return tokenize(...args)
  }
  const elsewhere = (...args: unknown[]) => {
    calls.elsewhere++
    begins()
    return (tokenize as unknown as { async: (...args: unknown[]) => void }).async(...args)
  }
  const watched: Mtmd = {
    ...mtmd!,
    bitmap_init: (width, height, pixels) => {
      hasPixels = pixels !== null
      return mtmd!.bitmap_init(width, height, pixels)
    },
    tokenize_from_parts: Object.assign(here, { async: elsewhere }),
    input_chunks_init: () => {
      calls.open++
      return init()
    },
    input_chunks_free: (chunks) => {
      calls.open--
      free(chunks)
    },
  }
  const settings = await shippedSettings({ encoder: true })
  model = new Model(llama, settings.model, [])
  projector = new Projector(watched, settings.projector!, model, { threads: 1, image: undefined })
  Object.defineProperty(projector, 'usesDevice', { value: true })
  reader = new PromptReader(model, projector, settings, new EncoderCache(2 ** 20))
})

afterAll(async () => {
  reader?.close()
  await projector?.close()
  model?.close()
})
beforeEach(() => {
  Object.assign(calls, { here: 0, elsewhere: 0, open: 0 })
  begins = () => {}
})

const image = (seed: number, side = SIZE): ImagePart => picture(side, side, seed)
const prepare = (part: ImagePart, signal = new AbortController().signal) => reader.prepare([part], 'test', 1000, signal)
const read = (part: ImagePart): TokenisedPrompt => reader.read([part], 'test', 'messages')
const mediaOf = ({ chunks }: TokenisedPrompt): MediaTokens => {
  const media = chunks.find(({ type }) => type === 'media')
  if (media?.type !== 'media') throw new Error('Expected media.')
  return media
}

test('a picture that was prepared ahead gives the same embeddings, and is prepared once', async () => {
  const prompt = read(image(1))
  const expected = mediaOf(prompt).encode()
  prompt.close()
  expect(calls).toEqual({ here: 1, elsewhere: 0, open: 0 })
  // Another organisation's cache does not know it.
  const part = image(1)
  await reader.prepare([part], 'other', 1000, new AbortController().signal)
  const ahead = reader.read([part], 'other', 'messages')
  expect(mediaOf(ahead).encode()).toEqual(expected)
  expect(calls).toMatchObject({ here: 1, elsewhere: 1 })
  ahead.close()
  expect(calls.open).toBe(0)
})

test('a picture that its organisation has encoded need not be prepared, and is freed', async () => {
  const first = read(image(2))
  mediaOf(first).encode()
  first.close()
  const part = image(2)
  await prepare(part)
  const again = read(part)
  expect(mediaOf(again).knownEmbeddings()).toBeDefined()
  again.close()
  // Another thread may have begun before it was known.
  await expect.poll(() => calls).toMatchObject({ elsewhere: 1, open: 0 })
})

test('a picture that another prompt has encoded meanwhile is freed', async () => {
  const parts = [image(3), image(3)]
  await Promise.all(parts.map((part) => prepare(part)))
  const prompts = parts.map(read)
  const media = prompts.map(mediaOf)
  const before = calls.open
  media[0]!.encode()
  expect(media[1]!.knownEmbeddings()).toBeDefined()
  expect(before - calls.open).toBe(2)
  for (const prompt of prompts) prompt.close()
  expect(calls.open).toBe(0)
})

test('only some are prepared ahead, and more when those are encoded or given up', async () => {
  const parts = Array.from({ length: 5 }, (_, seed) => image(seed, LARGE))
  const controller = new AbortController()
  await Promise.all(parts.map((part) => prepare(part, controller.signal)))
  // Each takes 20 MB.
  expect(calls).toMatchObject({ elsewhere: 3, open: 3 })
  const prompts = parts.map(read)
  for (const prompt of prompts) prompt.close()
  expect(calls.open).toBe(0)
  await prepare(parts[4]!)
  expect(calls.elsewhere).toBe(4)
  read(parts[4]!).close()
  expect(calls.open).toBe(0)
})

test('one that is aborted while it is prepared is freed', async () => {
  const controller = new AbortController()
  begins = () => controller.abort()
  await expect(prepare(image(6, LARGE), controller.signal)).rejects.toThrow('aborted')
  expect(calls.elsewhere).toBe(1)
  expect(calls.open).toBe(0)
})

test('a picture of any size is counted without pixels', async () => {
  const { image: pixels } = image(7)
  const part: ImagePart = { type: 'image', image: { ...pixels, data: new Uint8Array(0) } }
  await prepare(part)
  expect(reader.count([part], 'test')).toBeGreaterThan(0)
  expect(calls).toEqual({ here: 0, elsewhere: 0, open: 0 })
})
