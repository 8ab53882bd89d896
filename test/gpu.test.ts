import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { type Ask, chooseFrom } from '../src/inference/local/native/choice.ts'
import { Context } from '../src/inference/local/native/context.ts'
import { loadNativeLibraries } from '../src/inference/local/native/libraries.ts'
import { PLAIN_OPERATIONS } from '../src/inference/local/native/logits-operations.ts'
import { Model } from '../src/inference/local/native/model.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import { type LocalModelCard, loadLocalCard } from '../src/models/card.ts'
import { findBackend, GPU_BACKENDS } from '../src/setup/backends.mjs'
import type { Backend } from '../src/setup/types.ts'
import { CARD } from './support/local-engine.ts'
import { promptsOf } from './support/tiny-models/prompts.ts'
import { answers, branch } from './support/tiny-models/reuse.ts'
import { writeTinyModel } from './support/tiny-models/tiny-model.ts'
import { TINY_MODELS } from './support/tiny-models/tiny-models.ts'

const PLATFORM = `${process.platform}-${process.arch}`
const TOKENS = 8

/** The preferred backend that is installed. Metal comes with the packages, but has no test yet. */
const BACKEND = (GPU_BACKENDS[PLATFORM] ?? []).find((backend) => findBackend(backend, PLATFORM) !== null)?.name

/** ggml uses a Vulkan device that computes on the CPU only where it is named. Mesa's cache of shaders can crash it. */
const ENVIRONMENT = { GGML_VK_VISIBLE_DEVICES: '0', MESA_SHADER_CACHE_DISABLE: 'true' }
/** Mesa's llvmpipe crashes with more. */
const SEQUENCES = BACKEND === 'vulkan' ? 1 : 8

/** A model on a GPU, or on a Vulkan device that Mesa's llvmpipe provides without one (docs/gpu.md). */
describe.runIf(BACKEND !== undefined)(`with the ${BACKEND} backend, which is installed`, () => {
  let folder: string
  let card: LocalModelCard
  const model = TINY_MODELS.find(({ name }) => name === 'qwen3vl')!
  const replies = async (engine: LocalEngine) => {
    const texts: string[] = []
    for (const { name, parts } of promptsOf(model).slice(0, 2)) {
      texts.push(...(await answers(engine, name, parts, [branch({ maxTokens: TOKENS })])))
    }
    return texts
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lookout-gpu-'))
    card = await writeTinyModel(model, folder)
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))
  beforeEach(() => {
    for (const [name, value] of Object.entries(ENVIRONMENT)) vi.stubEnv(name, value)
  })

  const on = (backend: Backend, gpu: NonNullable<LocalModelCard['engine']['gpu']> = {}) =>
    LocalEngine.start({ ...card, engine: { ...card.engine, gpu, maxSequences: SEQUENCES } }, { backend })

  test('a model replies on a device as on the CPU', { timeout: 300_000 }, async ({ skip }) => {
    const engine = await on(BACKEND!)
    try {
      const problem = engine.offload?.problem ?? ''
      expect(problem).not.toContain('crashed')
      if (engine.offload?.devices.length === 0) skip(`There is no device. ${problem}`)
      expect(engine.offload).toMatchObject({
        layers: engine.offload?.ofLayers,
        encoder: engine.offload?.devices[0]?.name,
        problem: null,
      })
      const cpu = await on('cpu')
      try {
        expect(cpu.offload).toMatchObject({ devices: [], layers: 0, encoder: 'CPU', problem: null })
        expect(await replies(engine)).toEqual(await replies(cpu))
      } finally {
        await cpu.close()
      }
    } finally {
      await engine.close()
    }
  })

  test.runIf(BACKEND === 'cuda')('tokens are chosen on the device as on the CPU', { timeout: 300_000 }, ({ skip }) => {
    const libraries = loadNativeLibraries(locateNativeLibraries(BACKEND!))
    if (libraries.deviceChoice === null) skip('The backend has none of our functions, or no device.')
    const { llama } = libraries
    const model = new Model(llama, `${card.directory}/${card.engine.model}`)
    const context = new Context(libraries, model, { cells: 256, sequences: SEQUENCES, threads: 1, batchRows: 64 })
    const chosen = { there: 0, here: 0 }
    try {
      for (let round = 0; round < 20; round++) {
        context.clear()
        const rows = Array.from({ length: SEQUENCES }, (_, sequence) => {
          context.batch.add(1 + round, 0, sequence, false)
          return context.batch.add(7 * round + sequence, 1, sequence, true)
        })
        context.launchBatch()
        expect(context.keepsLogits).toBe(true)
        const asks = rows.map((row, at) => ({ row, ask: askOf(round * SEQUENCES + at, model.vocabularySize) }))
        context.ask(asks)
        const fetched = vi.spyOn(context, 'logits')
        const found = asks.map(({ row, ask }) => context.choose(row, ask))
        chosen.here += fetched.mock.calls.length
        chosen.there += asks.length - fetched.mock.calls.length
        fetched.mockRestore()
        for (const [at, { row, ask }] of asks.entries()) {
          const expected = chooseFrom(PLAIN_OPERATIONS, context.logits(row), ask)
          expect(found[at]!.token).toBe(expected.token)
          const [ranking, wanted] = [found[at]!.ranking, expected.ranking]
          expect(ranking?.top.map(({ token }) => token)).toEqual(wanted?.top.map(({ token }) => token))
          if (wanted !== null) expect(ranking!.logProb).toBeCloseTo(wanted.logProb, 10)
        }
      }
    } finally {
      context.close()
      model.close()
    }
    expect(chosen.there).toBeGreaterThan(10 * chosen.here)
  })

  test('a device that the card names must be there', async ({ skip }) => {
    const error = await on(BACKEND!, { devices: ['Vulkan7'] }).then(
      async (engine) => {
        const { offload } = engine
        await engine.close()
        return offload
      },
      (thrown: Error) => thrown,
    )
    if (!(error instanceof Error)) return skip(`There is no device. ${error?.problem}`)
    expect(error.message).toMatch(/engine\.gpu\.devices names Vulkan7, but the devices are: (Vulkan|CUDA)0 \(/)
  })
})

/** One of many ways to choose. */
function askOf(number: number, vocabularySize: number): Ask {
  const allowed = new Int32Array(Math.ceil(vocabularySize / 32)).map((_, word) => Math.imul(word + number, 0x9e3779b1))
  allowed[0] = 1
  // There are no tokens behind the last one.
  if (vocabularySize % 32 > 0) allowed[allowed.length - 1]! &= (1 << (vocabularySize % 32)) - 1
  return {
    allowed: number % 3 === 0 ? allowed : undefined,
    penalties: new Map(Array.from({ length: number % 5 }, (_, at) => [at * 11, 0.5 + at])),
    temperature: [0, 0.7, 1.3][number % 4] ?? 1,
    topK: number % 7 === 0 ? 20 : 0,
    topP: number % 2 === 0 ? 0.9 : 1,
    drawSeed: Math.imul(number + 1, 0x9e3779b1) >>> 0,
    ranked: number % 6 === 0 ? 5 : null,
  }
}

test.skipIf(process.platform === 'darwin')(
  'where a backend is missing, the CPU computes and the log says so',
  async () => {
    const [warn, info] = [vi.fn(), vi.fn()]
    const logger = { debug() {}, info, warn, error() {} }
    const engine = await LocalEngine.start(await loadLocalCard(CARD), { backend: 'metal', logger })
    await engine.close()
    expect(warn).toHaveBeenCalledWith(`There is no metal backend for ${PLATFORM}. The model runs on the CPU.`)
    expect(info).toHaveBeenCalledWith('model-f16.gguf: everything on the CPU')
  },
)
