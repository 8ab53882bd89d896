import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { loadNativeLibraries, type NativeLibraries } from '../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import type { ModelCard } from '../src/models/card.ts'
import { TINY_MODELS, writeTinyModel } from './support/tiny-models/index.ts'
import { PlainLoop } from './support/tiny-models/plain-loop.ts'
import { promptsOf } from './support/tiny-models/prompts.ts'
import { answers, branch, REUSE_CELLS, REUSES } from './support/tiny-models/reuse.ts'

/**
 * What `npm run parity -- families` checks without llama-server, for one family of each kind of memory: M-RoPE with
 * deepstack, a sliding window with images whose tokens attend to each other, SentencePiece, and a recurrent state.
 */
const KINDS = ['qwen3vl', 'gemma3', 'llava', 'lfm2-vl']
/** Those of which only whole sequences can be used again. */
const UNCUTTABLE = ['gemma3', 'lfm2-vl']
const CUTTING = ['same prompt', 'same beginning']
/** Few enough that two ways of rounding hardly ever disagree about a token. The command compares more. */
const TOKENS = 24

let folder: string
let libraries: NativeLibraries
beforeAll(async () => {
  libraries = loadNativeLibraries(locateNativeLibraries())
  folder = await mkdtemp(join(tmpdir(), 'lookout-families-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe.each(TINY_MODELS.filter(({ name }) => KINDS.includes(name)))('$name, with random weights', (model) => {
  let card: ModelCard
  let engine: LocalEngine
  beforeAll(async () => {
    card = await writeTinyModel(model, folder, { contextTokens: REUSE_CELLS })
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
})
