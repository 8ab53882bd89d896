/** The adapter with servers of vLLM: the one of all files, and some that are stopped, killed and started again. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import type { Engine } from '../../src/inference/contract/engine.ts'
import type { EngineEvent, Generation } from '../../src/inference/contract/generation.ts'
import type { Work } from '../../src/inference/contract/work.ts'
import { Samples } from '../../src/inference/remote/http/samples.ts'
import { startRemoteEngine } from '../../src/inference/remote/start.ts'
import { ApiError } from '../../src/lib/errors/errors.ts'
import { loadCard, remoteCard } from '../../src/models/card.ts'
import { writeVllmCard } from '../support/vllm/card.ts'
import { Vllm } from '../support/vllm/server.ts'

const { model } = inject('vllm')
const sharedUrl = inject('vllmUrl')
const HEALTH = { intervalMs: 200, answerMs: 2_000 }
const SAMPLING = { temperature: 0, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
const MANY = 20
const KEY_NAME = 'LOOKOUT_TEST_VLLM_KEY'
const KEY = 'a-key'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-vllm-engine-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function connect(urls: readonly string[], engine: object = {}): Promise<Engine> {
  const card = remoteCard(await loadCard(await writeVllmCard(folder, urls, { model, ...engine })))
  return startRemoteEngine(card, { health: HEALTH })
}

/** A reply of many tokens, about a prompt of its own. */
function endless(index: number, tokens = 2000): Work {
  return {
    organisation: 'org-test',
    prefix: [
      { type: 'text', trusted: true, text: '<|im_start|>user\n' },
      { type: 'text', trusted: false, text: `Number ${index}: count.` },
      { type: 'text', trusted: true, text: '<|im_end|>\n<|im_start|>assistant\n' },
    ],
    branches: [
      {
        suffix: [],
        n: 1,
        maxTokens: tokens,
        sampling: SAMPLING,
        constraint: { type: 'regex', pattern: '(?:one |two |three ){1000,}' },
      },
    ],
  }
}

const never = new AbortController().signal

async function collect({ events }: Generation, seen: (event: EngineEvent) => void = () => {}): Promise<EngineEvent[]> {
  const all: EngineEvent[] = []
  for await (const event of events) {
    all.push(event)
    seen(event)
  }
  return all
}

async function running(url: string): Promise<number> {
  return new Samples(await (await fetch(`${url}/metrics`)).text()).sum('vllm:num_requests_running')
}

describe('one server', () => {
  let engine: Engine
  beforeAll(async () => {
    engine = await connect([sharedUrl])
  })
  afterAll(() => engine?.close())

  test('an abort ends the computation within a second', async () => {
    const leaving = new AbortController()
    const generation = await engine.generate(endless(1), leaving.signal)
    const ended = collect(generation, () => leaving.abort())
    await expect(ended).rejects.toMatchObject({ name: 'AbortError' })
    await expect.poll(() => running(sharedUrl), { timeout: 1_000 }).toBe(0)
  })

  test('its load can be seen', async () => {
    const leaving = new AbortController()
    const generation = await engine.generate(endless(2), leaving.signal)
    const ended = collect(generation).catch(() => {})
    await expect.poll(async () => (await engine.stats!()).running).toBe(1)
    await expect.poll(async () => (await engine.stats!()).usedCells).toBeGreaterThan(0)
    expect((await engine.stats!()).totalCells).toBeGreaterThan(8192)
    leaving.abort()
    await ended
  })

  test('several completions of one branch differ, and their tokens are those of one request', async () => {
    const [branch] = endless(3, 40).branches
    const sampling = { ...SAMPLING, temperature: 1 }
    const work = { ...endless(3, 40), branches: [{ ...branch!, n: 4, sampling }] }
    const events = await collect(await engine.generate(work, never))
    const texts = [0, 1, 2, 3].map((index) =>
      events.map((event) => (event.type === 'text' && event.completion === index ? event.text : '')).join(''),
    )
    expect(new Set(texts).size).toBe(4)
    const finishes = events.filter((event) => event.type === 'finish')
    expect(finishes.map(({ completionTokens }) => completionTokens)).toEqual([40, 40, 40, 40])
  })

  test('text that another request has had is in the cache, of the same organisation only', async () => {
    const long = 'The robot drives to the left and to the right of the blue box. '.repeat(20)
    const ask = async (organisation: string) => {
      const work = endless(4, 4)
      const prefix = [work.prefix[0]!, { type: 'text' as const, trusted: false, text: long }, work.prefix[2]!]
      const generation = await engine.generate({ ...work, organisation, prefix }, never)
      await collect(generation)
      return generation.prompts[0]!.cachedTokens
    }
    expect(await ask('org-a')).toBe(0)
    expect(await ask('org-a')).toBeGreaterThan(100)
    expect(await ask('org-b')).toBe(0)
  })
})

describe('two servers', () => {
  test('one is killed among many streams: the others go on, and it is used again when it is back', {
    timeout: 300_000,
  }, async () => {
    const first = await Vllm.start(inject('vllm'))
    const engine = await connect([first.url, sharedUrl], { maxSequences: 16 })
    try {
      const begun = new Set<number>()
      const generations = await Promise.all(
        Array.from({ length: MANY }, (_, index) => engine.generate(endless(index, 200), never)),
      )
      const ends = Promise.allSettled(
        generations.map((generation, index) => collect(generation, () => void begun.add(index))),
      )
      await expect.poll(() => begun.size, { timeout: 60_000 }).toBe(MANY)
      const port = Number(new URL(first.url).port)
      await first.kill()
      const results = await ends
      const lost = results.filter(({ status }) => status === 'rejected')
      expect(lost.length).toBeGreaterThan(0)
      expect(lost.length).toBeLessThan(MANY)
      for (const result of lost) expect((result as PromiseRejectedResult).reason).toMatchObject({ status: 503 })
      // What comes now goes to the other one.
      await Promise.all(
        Array.from({ length: 4 }, async (_, index) => collect(await engine.generate(endless(index, 4), never))),
      )
      await using again = await Vllm.start(inject('vllm'), { port })
      await expect
        .poll(
          async () => {
            await Promise.all(
              Array.from({ length: 8 }, async (_, index) => collect(await engine.generate(endless(index, 4), never))),
            )
            const text = await (await fetch(`${again.url}/metrics`)).text()
            return Number(/^vllm:generation_tokens_total\{[^}]*\} (\S+)$/m.exec(text)?.[1])
          },
          { timeout: 30_000 },
        )
        .toBeGreaterThan(4)
    } finally {
      await engine.close()
      await first.kill().catch(() => {})
    }
  })
})

describe('a server with a key', () => {
  let vllm: Vllm
  beforeAll(async () => {
    vllm = await Vllm.start(inject('vllm'), { apiKey: KEY })
  })
  afterAll(() => vllm?.kill())

  test('is not used without it', async () => {
    await expect(connect([vllm.url])).rejects.toThrow(/it wants another API key \(engine\.apiKeyEnv\)/)
  })

  test('with it, it is used; stopped, it is given up; continued, it is used again', async () => {
    vi.stubEnv(KEY_NAME, KEY)
    const engine = await connect([vllm.url], { apiKeyEnv: KEY_NAME })
    const ended = collect(await engine.generate(endless(5), never))
    vllm.pause()
    await expect(ended).rejects.toMatchObject({ status: 503, code: 'model_overloaded' })
    await expect.poll(() => engine.state).toBe('restarting')
    await expect(engine.generate(endless(6), never)).rejects.toBeInstanceOf(ApiError)
    vllm.resume()
    await expect.poll(() => engine.state, { timeout: 30_000 }).toBe('ready')
    await collect(await engine.generate(endless(7, 4), never))
    await expect.poll(() => running(vllm.url), { timeout: 10_000 }).toBe(0)
    await engine.close()
  })

  test('ends when it is told to', async () => {
    await vllm.stop()
    await expect(fetch(`${vllm.url}/health`)).rejects.toThrow('fetch failed')
  })
})
