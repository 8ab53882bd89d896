import { afterEach, expect, test } from 'vitest'
import { branch, picture, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import type { PromptPart } from '../../contract/parts.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { FromEngine } from '../protocol.ts'
import { BatchSplitter } from './batch/batch-splitter.ts'
import { LoadedModel } from './loaded-model.ts'
import { Scheduler } from './scheduler.ts'

let loaded: LoadedModel
let encoded = 0

async function load(encoderCacheBytes: number): Promise<void> {
  const libraries = loadNativeLibraries(locateNativeLibraries())
  const mtmd = libraries.mtmd!
  const run: typeof mtmd.encoder_run = (...args) => {
    const code = mtmd.encoder_run(...args)
    if (code === 0) encoded++
    return code
  }
  encoded = 0
  loaded = new LoadedModel(
    { ...libraries, mtmd: { ...mtmd, encoder_run: run } },
    await shippedSettings({ encoder: true, cells: 1024, encoderCacheBytes }),
  )
}

afterEach(() => loaded.close())

test('output larger than the encoder cache is kept while it is used, and removes nothing', async () => {
  // A token takes 1 KiB.
  await load(50 * 1024)
  const read = (part: PromptPart) => {
    const prompt = loaded.reader.read([part], 'test', 'messages')
    const media = prompt.chunks.find(({ type }) => type === 'media')
    if (media?.type !== 'media') throw new Error('Expected media.')
    return { media, close: () => prompt.close() }
  }
  const large = picture(256, 256)
  const prompts = [read({ type: 'audio', samples: new Float32Array(16_000) }), read(picture(128, 128)), read(large)]
  expect(prompts.map(({ media }) => media.encode()!.byteLength / 1024)).toEqual([26, 16, 64])
  const known = () => prompts.map(({ media }) => media.knownEmbeddings() !== undefined)
  expect(known()).toEqual([true, true, true])
  const second = read(large)
  for (const { close } of prompts) close()
  expect(known()).toEqual([true, true, true])
  second.close()
  expect(known()).toEqual([true, true, false])
})

test('an image is encoded once for all requests of an organisation that show it at the same time', async () => {
  await load(0)
  const ended = new Set<number>()
  const send = (message: FromEngine) => {
    if (message.type !== 'events') return
    for (const { id, last } of message.requests) if (last) ended.add(id)
  }
  const splitter = new BatchSplitter([{ rows: 1, ms: 0.01 }], 4, loaded.context.batch.capacity)
  const scheduler = new Scheduler(
    loaded,
    splitter,
    { maxWaiting: 10, prefixCacheBytes: 0, speculation: false, seed: 1 },
    send,
  )
  const ask = (id: number, organisation: string, before: string) =>
    scheduler.submit(id, {
      organisation,
      prefix: [untrusted(before), picture(256, 256), trusted('<|im_end|>')],
      branches: [branch({ maxTokens: 2 })],
    })
  ask(1, 'a', 'First: ')
  ask(2, 'a', 'The second time: ')
  while (ended.size < 1) scheduler.step()
  ask(3, 'a', 'And the third: ')
  while (ended.size < 3) scheduler.step()
  expect(encoded).toBe(1)
  ask(4, 'b', 'First: ')
  while (ended.size < 4) scheduler.step()
  expect(encoded).toBe(2)
})
