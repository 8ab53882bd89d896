import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { TINY_MODELS, writeTinyModel } from './support/tiny-models/index.ts'
import { REUSE_CELLS, REUSES } from './support/tiny-models/reuse.ts'

/**
 * What `npm run parity -- families` checks without llama-server, for one family of each kind of memory: M-RoPE with
 * deepstack, a sliding window with images whose tokens attend to each other, SentencePiece, and a recurrent state.
 */
const KINDS = ['qwen3vl', 'gemma3', 'llava', 'lfm2-vl']
/** Those of which only whole sequences can be used again. */
const UNCUTTABLE = ['gemma3', 'lfm2-vl']
const CUTTING = ['same prompt', 'same beginning']

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-families-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe.each(TINY_MODELS.filter(({ name }) => KINDS.includes(name)))('$name, with random weights', (model) => {
  let engine: LocalEngine
  beforeAll(async () => {
    engine = await LocalEngine.start(await writeTinyModel(model, folder, { contextTokens: REUSE_CELLS }))
  })
  afterAll(() => engine?.close())

  test.each(Object.entries(REUSES))('replies as a fresh run does: %s', async (name, reuse) => {
    const isCut = UNCUTTABLE.includes(model.name) && CUTTING.includes(name)
    expect(await reuse(engine, model)).toEqual({ differing: [], reused: !isCut })
  })
})
