import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import { readSettings } from '../src/inference/local/host/load-settings.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { loadNativeLibraries, type NativeLibraries } from '../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import type { EngineSettings, FromEngine } from '../src/inference/local/protocol.ts'
import { BatchSplitter } from '../src/inference/local/scheduler/batch/batch-splitter.ts'
import { LoadedModel } from '../src/inference/local/scheduler/loaded-model.ts'
import { Scheduler } from '../src/inference/local/scheduler/scheduler.ts'
import type { LocalModelCard } from '../src/models/card.ts'
import { uint32 } from './support/gguf-writer.ts'
import { countTokens, trusted } from './support/local-engine.ts'
import { inPoisonedMemory } from './support/poison-memory.ts'
import { PlainLoop } from './support/tiny-models/plain-loop.ts'
import { mediaOf, promptsOf, turnOf, untrusted } from './support/tiny-models/prompts.ts'
import { answers, branch, REUSES } from './support/tiny-models/reuse.ts'
import { type TinyModel, writeTinyModel } from './support/tiny-models/tiny-model.ts'
import { TINY_MODELS } from './support/tiny-models/tiny-models.ts'

/**
 * What `npm run parity -- families` checks without llama-server, for one family of each kind of memory: M-RoPE with
 * deepstack, a sliding window with images whose tokens attend to each other, keys and values that layers share,
 * SentencePiece, and a recurrent state.
 */
const KINDS = ['qwen3vl', 'gemma3', 'gemma4', 'llava', 'lfm2-vl']
/** Those of which only whole sequences can be used again. */
const UNCUTTABLE = ['gemma3', 'gemma4', 'lfm2-vl']
const CUTTING = ['same prompt', 'same prompt, from a copy', 'same beginning']
/** Few enough that two ways of rounding hardly ever disagree about a token. The command compares more. */
const TOKENS = 24
/** KV cells: enough for each of the prompts, and soon full. */
const CELLS = 768

let folder: string
let libraries: NativeLibraries
beforeAll(async () => {
  libraries = loadNativeLibraries(locateNativeLibraries())
  folder = await mkdtemp(join(tmpdir(), 'lookout-families-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe.each(TINY_MODELS.filter(({ name }) => KINDS.includes(name)))('$name, with random weights', (model) => {
  let card: LocalModelCard
  let engine: LocalEngine
  beforeAll(async () => {
    card = await writeTinyModel(model, folder, { contextTokens: CELLS })
    engine = await LocalEngine.start(card)
  })
  afterAll(() => engine?.close())

  test('replies as a plain loop over libmtmd does', async () => {
    using loop = new PlainLoop(libraries, card)
    for (const { name, parts } of promptsOf(model)) {
      const [reply] = await answers(engine, name, parts, [branch({ maxTokens: TOKENS })])
      expect(reply, name).toBe(loop.reply(parts, TOKENS))
    }
  })

  test.each(Object.entries(REUSES))('replies as a fresh run does: %s', async (name, reuse) => {
    const isCut = UNCUTTABLE.includes(model.name) && CUTTING.includes(name)
    expect(await reuse(engine, model)).toEqual({ differing: [], reused: !isCut })
  })

  if (model.name !== 'llava') return
  test('SentencePiece reads texts as one, but no mark that was cut', async () => {
    const count = (...texts: readonly PromptPart[]) => countTokens(engine, texts)
    const mark = await count(untrusted('a<think>b'))
    expect(await count(untrusted('a'), untrusted('<think>'), untrusted('b'))).toBe(mark)
    expect(await count(untrusted('a<'), untrusted('think>b'))).toBe(await count(untrusted('a<'), untrusted('hinkt>b')))
    expect(await count(trusted('USER: '), untrusted('a<'), untrusted('think>b'), trusted('\n'))).toBe(
      await count(trusted('USER: '), untrusted('a<'), untrusted('hinkt>b'), trusted('\n')),
    )
  })
})

const named = (name: string): TinyModel => TINY_MODELS.find((model) => model.name === name)!

/** The replies of a model that is loaded for them alone, by the engine's own parts but in this process. */
async function repliesTo(settings: EngineSettings, prompts: readonly (readonly PromptPart[])[]): Promise<string[]> {
  const loaded = new LoadedModel(libraries, settings)
  try {
    const replies = prompts.map(() => '')
    const send = (message: FromEngine) => {
      if (message.type === 'error') throw new Error(JSON.stringify(message.error))
      for (const { id, events } of message.type === 'events' ? message.requests : []) {
        for (const event of events) {
          if (event.type === 'error') throw event.error
          if (event.type === 'text') replies[id]! += event.text
        }
      }
    }
    const splitter = new BatchSplitter([{ rows: 1, ms: 1 }], loaded.maxRunning, loaded.context.batch.capacity)
    const own = { maxWaiting: 1, prefixCacheBytes: 0, speculation: false, seed: 1 }
    const scheduler = new Scheduler(loaded, splitter, own, send)
    for (const [id, prefix] of prompts.entries()) {
      scheduler.submit(id, { organisation: 'fresh', prefix, branches: [branch({ maxTokens: TOKENS })] })
      while (scheduler.step());
    }
    return replies
  } finally {
    await loaded.close()
  }
}

test.each(TINY_MODELS)('replies depend on what is shown, and not on what memory held before: $name', async (model) => {
  const card = await writeTinyModel(model, folder)
  const { engine: settings } = await readSettings(card, {})
  const prompts = mediaOf(model)!.map((medium) => turnOf(model, medium, untrusted('What is here?')))
  const replies = await repliesTo(settings, prompts)
  expect(replies.map((reply) => reply.trim().split(' ').length)).toEqual([TOKENS, TOKENS])
  expect(replies[0]).not.toBe(replies[1])
  if (process.platform !== 'linux') return
  expect(await inPoisonedMemory(() => repliesTo(settings, prompts))).toEqual(replies)
})

test('a model whose sound the library would miscount is refused', async () => {
  const model = named('ultravox')
  const encoder = () => {
    const { metadata, tensors } = model.encoder!()
    return { tensors, metadata: new Map([...metadata, ['clip.audio.embedding_length', uint32(1024)] as const]) }
  }
  const card = await writeTinyModel({ ...model, name: 'ultravox-medium', encoder }, folder)
  await expect(LocalEngine.start(card)).rejects.toThrow(
    /mmproj\.gguf cannot be used for sound: .+ stacks 8 outputs of 1024 numbers/,
  )
})
