import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { branch, picture, REPEATING, trusted, untrusted } from '../../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../../test/support/shipped-settings.ts'
import type { Work } from '../../../contract/work.ts'
import { Context } from '../../native/context.ts'
import { Encoder } from '../../native/encoder.ts'
import { loadNativeLibraries } from '../../native/libraries.ts'
import { locateNativeLibraries } from '../../native/native-paths.ts'
import type { FromEngine } from '../../protocol.ts'
import { LoadedModel } from '../loaded-model.ts'
import { Scheduler } from '../scheduler.ts'
import { BatchSplitter } from './batch-splitter.ts'
import { PrefillPace } from './prefill-pace.ts'

/** Where a device runs the encoder, another thread encodes while the steps go on. The CPU stands in for the device. */

let loaded: LoadedModel
const all: LoadedModel[] = []

/** Another one, in which nothing is encoded yet. */
async function load(): Promise<void> {
  loaded = new LoadedModel(loadNativeLibraries(locateNativeLibraries()), await shippedSettings({ encoder: true }))
  all.push(loaded)
}

beforeAll(load)
afterAll(async () => {
  for (const model of all) await model.close()
})
afterEach(() => vi.restoreAllMocks())

/** The messages of a scheduler so far, and a promise for later ones. */
class Answers {
  readonly texts = new Map<number, string>()
  readonly errors = new Map<number, string>()
  readonly ended = new Set<number>()
  readonly #waiting = new Set<() => void>()

  readonly receive = (message: FromEngine): void => {
    if (message.type === 'error') this.errors.set(message.id, message.error.message)
    if (message.type === 'events') {
      for (const { id, events, last } of message.requests) {
        for (const event of events)
          if (event.type === 'text') this.texts.set(id, (this.texts.get(id) ?? '') + event.text)
        if (last) this.ended.add(id)
      }
    }
    for (const look of this.#waiting) look()
  }

  async until(isSo: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const look = () => {
      if (!isSo()) return
      this.#waiting.delete(look)
      resolve()
    }
    this.#waiting.add(look)
    look()
    await promise
  }
}

function start(encodesAside: boolean): { readonly scheduler: Scheduler; readonly answers: Answers } {
  const answers = new Answers()
  const splitter = new BatchSplitter([{ rows: 1, ms: 0.01 }], 4, loaded.context.batch.capacity)
  const settings = { maxWaiting: 10, prefixCacheBytes: 0, speculation: false, seed: 1 }
  return { scheduler: new Scheduler(loaded, splitter, settings, answers.receive, { encodesAside }), answers }
}

const work = (prefix: Work['prefix'], maxTokens: number): Work => ({
  organisation: 'test',
  prefix: [trusted('<|im_start|>user\n'), ...prefix, trusted('<|im_end|>\n<|im_start|>assistant\n')],
  branches: [branch({ maxTokens, sampling: REPEATING })],
})

/** Blocks the encoding of pictures until `open` is called. */
function gate(): { readonly begun: Promise<void>; readonly open: () => void } {
  const begun = Promise.withResolvers<void>()
  const opened = Promise.withResolvers<void>()
  const runAside = Encoder.prototype.runAside
  vi.spyOn(Encoder.prototype, 'runAside').mockImplementation(async function (this: Encoder, ...args) {
    begun.resolve()
    await opened.promise
    return runAside.apply(this, args)
  })
  return { begun: begun.promise, open: () => opened.resolve() }
}

test('replies about pictures are the same', async () => {
  const replies: (string | undefined)[][] = []
  for (const encodesAside of [false, true]) {
    await load()
    const { scheduler, answers } = start(encodesAside)
    const prompts = [...[[1], [2, 3, 2], [1, 4]].entries()]
    for (const [id, pictures] of prompts) {
      scheduler.submit(
        id,
        work(
          pictures.flatMap((seed) => [picture(256, 256, seed), untrusted('and')]),
          8,
        ),
      )
    }
    await answers.until(() => answers.ended.size === prompts.length)
    expect(answers.errors.size).toBe(0)
    replies.push(prompts.map(([id]) => answers.texts.get(id)))
  }
  expect(replies[1]).toEqual(replies[0])
})

test('others get their tokens while a picture is encoded', async () => {
  const { scheduler, answers } = start(true)
  const { begun, open } = gate()
  scheduler.submit(1, work([picture(256, 256, 30), untrusted('What?')], 4))
  await begun
  scheduler.submit(2, work([untrusted('Write.')], 20))
  await answers.until(() => answers.ended.has(2))
  expect(answers.texts.has(1)).toBe(false)
  open()
  await answers.until(() => answers.ended.has(1))
  expect(answers.errors.size).toBe(0)
})

test('a request may be aborted while its picture is encoded', async () => {
  const { scheduler, answers } = start(true)
  const { begun, open } = gate()
  scheduler.submit(1, work([picture(256, 256, 31), untrusted('What?')], 4))
  await begun
  scheduler.abort(1)
  scheduler.submit(2, work([picture(256, 256, 32), untrusted('What?')], 4))
  open()
  await answers.until(() => answers.ended.has(2))
  expect([answers.texts.has(1), answers.errors.size]).toEqual([false, 0])
  expect(scheduler.stats.running).toBe(0)
})

test('media that cannot be encoded fail only their request', async () => {
  const { scheduler, answers } = start(true)
  vi.spyOn(Encoder.prototype, 'runAside').mockRejectedValueOnce(new Error('broken'))
  scheduler.submit(1, work([picture(256, 256, 33), untrusted('What?')], 4))
  scheduler.submit(2, work([picture(256, 256, 34), untrusted('What?')], 4))
  await answers.until(() => answers.errors.has(1) && answers.ended.has(2))
  expect(answers.errors.size).toBe(1)
})

test.each([
  { wholeMedia: true, calls: 1 },
  { wholeMedia: false, calls: 4 },
])('a picture takes $calls calls beside others where whole media is $wholeMedia', async ({ wholeMedia, calls }) => {
  await load()
  Object.assign(loaded, { compute: { ...loaded.compute, wholeMedia } })
  const { scheduler, answers } = start(true)
  vi.spyOn(PrefillPace.prototype, 'rowsWithin').mockReturnValue(16)
  const decode = vi.spyOn(Context.prototype, 'decodeEmbeddings')
  scheduler.submit(1, work([untrusted('Write.')], 60))
  await answers.until(() => answers.texts.has(1))
  scheduler.submit(2, work([picture(256, 256, 40), untrusted('What?')], 1))
  await answers.until(() => answers.ended.size === 2)
  expect(decode).toHaveBeenCalledTimes(calls)
})

test('background work continues while a picture is encoded, and ends', async () => {
  const { scheduler, answers } = start(true)
  const { begun, open } = gate()
  scheduler.submit(1, work([picture(256, 256, 50), untrusted('What?')], 4))
  await begun
  for (const id of [2, 3]) scheduler.submit(id, { ...work([untrusted('Write.')], 20), priority: 'background' })
  scheduler.submit(4, { ...work([picture(256, 256, 51), untrusted('What?')], 4), priority: 'background' })
  await answers.until(() => answers.ended.has(2) && answers.ended.has(3))
  expect(answers.texts.has(1)).toBe(false)
  open()
  await answers.until(() => answers.ended.size === 4)
  expect(answers.errors.size).toBe(0)
})
