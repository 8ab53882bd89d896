import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  apiError,
  assistant,
  branch,
  CARD,
  chat,
  collect,
  countTokens,
  endless,
  expectAllFreed,
  firstEvent,
  generate,
  picture,
  question,
  RANDOM,
  REPEATING,
  run,
  smallCard,
  trusted,
  until,
  untrusted,
} from '../../../../test/support/local-engine.ts'
import { ApiError } from '../../../lib/errors/errors.ts'
import { loadCard } from '../../../models/card.ts'
import type { PromptPart } from '../../contract/parts.ts'
import { PULSE_LIMIT_MS } from '../heartbeat.ts'
import { LocalEngine } from '../host/local-engine.ts'
import { RestartPause } from '../host/restart-pause.ts'

const turn = (...parts: PromptPart[]) => [trusted('<|im_start|>user\n'), ...parts, trusted('<|im_end|>\n'), assistant]
/** Bytes of a cell of the shipped model: keys and values of 6 layers, and where they are. */
const CELL_BYTES = 6 * 2 * 128 * 2 + 24
/** More than 5 tokens for each repeat, and another text for every name. */
const longText = (name: string, repeats: number) =>
  untrusted(`${name} `.concat('one two three four five '.repeat(repeats)))

describe('several requests at once', () => {
  let engine: LocalEngine
  let restarts = 0

  beforeAll(async () => {
    const onRestart = () => void restarts++
    // The silence of the main thread alone is never detected.
    const options = { seed: 1, maxWaiting: 200, silenceLimitMs: 3_600_000, onRestart }
    engine = await LocalEngine.start(await loadCard(CARD), options)
  })

  afterAll(() => engine?.close())

  test('a short one that comes later ends before a long one', async () => {
    const controller = new AbortController()
    const long = await generate(engine, turn(untrusted('Tell me all.')), [endless()], { signal: controller.signal })
    await firstEvent(long)
    const { finishes } = await run(engine, turn(untrusted('Hello')), branch({ maxTokens: 4, sampling: RANDOM }))
    expect(finishes).toHaveLength(1)
    expect((await engine.stats()).running).toBe(8)
    controller.abort()
    await expectAllFreed(engine)
  })

  test('a later long prompt hardly delays running requests, nor short ones after it, with a picture or without', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const running = await generate(engine, turn(untrusted('Go on.')), [endless(1)], { signal })
    let tokens = 0
    const counting = (async () => {
      for await (const event of running.events) if (event.type === 'text') tokens += event.tokens
    })().catch(() => {})
    await until(() => tokens > 0)
    const tokensBefore = tokens
    const computed = async () => (await engine.stats()).prefilledTokens
    let isOver = false
    // Another text in each try: what is in the prefix cache is not prefilled.
    const long = await generate(engine, [longText(`first ${Math.random()}`, 600)], [endless(1)], { signal })
    const begun = firstEvent(long).finally(() => {
      isOver = true
    })
    const waits: number[] = []
    for (let i = 0; i < 11 && !isOver; i++) {
      const before = await computed()
      const parts = i % 2 === 0 ? [untrusted(`Quick, ${i}!`)] : [picture(256, 256, 300 + i), untrusted('What?')]
      await firstEvent(await generate(engine, turn(...parts), [branch({ maxTokens: 1 })]))
      waits.push((await computed()) - before)
    }
    await begun
    // At most 512 of more than 3,000 tokens beside each token of the other.
    expect(tokens - tokensBefore).toBeGreaterThan(4)
    expect(waits.length).toBeGreaterThan(5)
    // In tokens that were computed meanwhile, not in time: a pause of the machine lengthens a single wait by any amount.
    expect(waits.sort((a, b) => a - b)[waits.length >> 1]).toBeLessThan(512)
    controller.abort()
    await counting
    await expectAllFreed(engine)
  })

  test('long prompts of several organisations are prefilled in turn', async () => {
    const before = await engine.stats()
    const controller = new AbortController()
    const long = (name: string, organisation = name) =>
      generate(engine, [longText(name, 300)], [endless(1)], { organisation, signal: controller.signal })
    try {
      const waiting = await Promise.all([long('a'), long('b'), long('c'), long('more', 'c')])
      await Promise.race(waiting.map(firstEvent))
      const promptTokens = waiting[0]!.prompts[0]!.promptTokens
      // The three organisations had about as much each. One that is tokenised sooner begins sooner.
      expect((await engine.stats()).prefilledTokens - before.prefilledTokens).toBeGreaterThan(2 * promptTokens)
    } finally {
      controller.abort()
      await expectAllFreed(engine)
    }
  })

  test('64 completions run at once, and 100 waiting requests run to the end', async () => {
    const controller = new AbortController()
    const full = await generate(engine, chat, [endless(64)], { signal: controller.signal })
    await firstEvent(full)
    await until(async () => (await engine.stats()).running === 64)
    const waiting = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        generate(engine, turn(untrusted(`Request ${i}`)), [branch({ maxTokens: 3 })], { organisation: `${i % 7}` }),
      ),
    )
    expect(await engine.stats()).toMatchObject({ running: 64, waiting: 100 })
    controller.abort()
    const ended = await Promise.all(waiting.map(collect))
    for (const { finishes } of ended) expect(finishes).toHaveLength(1)
    await expectAllFreed(engine)
  })

  test('many completions of many branches run in turns', async () => {
    const branches = Array.from({ length: 12 }, (_, i) =>
      branch({ suffix: turn(untrusted(`Question ${i}`)), n: 8, maxTokens: 3, sampling: RANDOM }),
    )
    const generation = await generate(engine, question, branches)
    const { finishes } = await collect(generation)
    expect(new Set(finishes.map((finish) => `${finish.branch}.${finish.completion}`)).size).toBe(96)
    await expectAllFreed(engine)
  })

  describe('an abort frees all resources of the request', () => {
    /** More than an engine encodes while a busy test waits for it to say how far it is. */
    const MANY = 160
    const manyPictures = turn(
      ...Array.from({ length: MANY }, (_, i) => picture(256, 256, 100 + i)),
      untrusted('Compare.'),
    )

    test('while it decodes', async () => {
      const controller = new AbortController()
      const generation = await generate(engine, chat, [endless()], { signal: controller.signal })
      await firstEvent(generation)
      controller.abort()
      await expectAllFreed(engine)
    })

    test('while its prompt is prefilled', async () => {
      const { prefilledTokens } = await engine.stats()
      const controller = new AbortController()
      await generate(engine, [longText('aborted', 2400)], [endless()], { signal: controller.signal })
      await until(async () => (await engine.stats()).prefilledTokens > prefilledTokens)
      controller.abort()
      const stats = await expectAllFreed(engine)
      expect(stats.prefilledTokens - prefilledTokens).toBeLessThan(12_000)
    })

    test('while its pictures are encoded', async () => {
      const before = await engine.stats()
      const controller = new AbortController()
      await generate(engine, manyPictures, [endless()], { signal: controller.signal })
      await until(async () => (await engine.stats()).prefilledTokens > before.prefilledTokens + 64)
      controller.abort()
      const stats = await expectAllFreed(engine)
      expect(stats.prefilledTokens - before.prefilledTokens).toBeLessThan(MANY * 64)
    })

    test('while it is one of many with pictures that have yet to reach the engine', async () => {
      const running = new AbortController()
      const full = await generate(engine, chat, [endless(64)], { signal: running.signal })
      await firstEvent(full)
      const before = await engine.stats()
      const controller = new AbortController()
      const large = { type: 'image', image: { width: 448, height: 448, data: new Uint8Array(448 * 448 * 3) } } as const
      const left = Array.from({ length: 60 }, () =>
        expect(generate(engine, [large], [branch()], { signal: controller.signal }).then(collect)).rejects.toThrow(),
      )
      controller.abort()
      await Promise.all(left)
      const after = await engine.stats()
      expect((after.decodedTokens - before.decodedTokens) / 64).toBeLessThan(40)
      running.abort()
      await expectAllFreed(engine)
    })

    test('while it waits', async () => {
      const running = new AbortController()
      const full = await generate(engine, chat, [endless(64)], { signal: running.signal })
      await firstEvent(full)
      const controller = new AbortController()
      await generate(engine, question, [branch()], { signal: controller.signal })
      expect((await engine.stats()).waiting).toBe(1)
      controller.abort()
      await until(async () => (await engine.stats()).waiting === 0)
      expect((await engine.stats()).running).toBe(64)
      running.abort()
      await expectAllFreed(engine)
    })
  })

  test('pictures of one request do not delay another', async () => {
    const controller = new AbortController()
    const running = await generate(engine, turn(untrusted('Go on.')), [endless(1)], { signal: controller.signal })
    let tokens = 0
    const counting = (async () => {
      for await (const event of running.events) if (event.type === 'text') tokens += event.tokens
    })().catch(() => {})
    await until(() => tokens > 0)
    const before = tokens
    const pictures = Array.from({ length: 12 }, (_, i) => picture(256, 256, 200 + i))
    await firstEvent(await generate(engine, turn(...pictures), [endless(1)], { signal: controller.signal }))
    expect(tokens - before).toBeGreaterThan(12)
    controller.abort()
    await counting
    await expectAllFreed(engine)
  })

  test('when the process is killed amid 20 streams, all end with an error, and new work is served again', async () => {
    const streams = await Promise.all(Array.from({ length: 20 }, () => generate(engine, chat, [endless(1)])))
    const lost = streams.map((stream) =>
      expect(collect(stream)).rejects.toEqual(
        apiError({ status: 503, code: 'model_overloaded', retryAfter: expect.any(Number) }),
      ),
    )
    await until(async () => (await engine.stats()).running === 20)
    process.kill(engine.pid!, 'SIGKILL')
    await Promise.all(lost)
    await until(() => engine.state === 'ready')
    expect((await run(engine, question, branch({ maxTokens: 2 }))).finishes).toHaveLength(1)
    await expectAllFreed(engine)
  })

  test('repeated crashes do not keep the process down, as long as it serves requests in between', async () => {
    const before = restarts
    const pause = vi.spyOn(RestartPause.prototype, 'next')
    for (let kill = 1; kill <= 2; kill++) {
      await until(() => engine.state === 'ready')
      for (let i = 0; i < 3; i++) await run(engine, question, branch({ maxTokens: 2 }))
      const lost = generate(engine, chat, [endless()]).then(collect)
      const refused = expect(lost).rejects.toMatchObject({ status: 503, retryAfter: expect.any(Number) })
      process.kill(engine.pid!, 'SIGKILL')
      await refused
      expect(restarts).toBe(before + kill)
    }
    // The first pause, each time.
    expect(pause.mock.results.map(({ value }) => value)).toEqual([250, 250])
    await until(() => engine.state === 'ready')
  })

  test('a process that no longer runs is detected within seconds', async () => {
    const generation = await generate(engine, chat, [endless()])
    await firstEvent(generation)
    process.kill(engine.pid!, 'SIGSTOP')
    await expect(collect(generation)).rejects.toEqual(
      apiError({
        status: 503,
        code: 'model_overloaded',
        message: expect.stringMatching(/Try again in \d+ seconds?\.$/),
      }),
    )
    await until(() => engine.state === 'ready')
    expect((await run(engine, question, branch({ maxTokens: 2 }))).finishes).toHaveLength(1)
  })
})

test('a request that is refused for a full queue is told when to retry', async () => {
  const engine = await LocalEngine.start(await smallCard(2048, 4), { maxWaiting: 8 })
  const busy = [branch({ maxTokens: 200, sampling: REPEATING })]
  const told: number[] = []
  /** Retries when it is told to. */
  const insist = async (organisation: string, isRetry = false): Promise<void> => {
    try {
      const { finishes } = await collect(await generate(engine, turn(untrusted('Go on.')), busy, { organisation }))
      expect(finishes[0]!.completionTokens).toBe(200)
    } catch (error) {
      if (!(error instanceof ApiError) || error.retryAfter === undefined) throw error
      const { retryAfter, message } = error
      expect(message).toMatch(/queue is full\. Try again in \d+ seconds?\.$/)
      if (!isRetry) told.push(retryAfter)
      await new Promise((resolve) => setTimeout(resolve, retryAfter * 1000))
      await insist(organisation, true)
    }
  }
  try {
    // The current speed of this machine.
    const started = performance.now()
    await Promise.all(Array.from({ length: 4 }, (_, i) => insist(`${i}`)))
    const seconds = (performance.now() - started) / 1000
    await Promise.all(Array.from({ length: 40 }, (_, i) => insist(`${i}`)))
    expect(told).toHaveLength(28)
    told.sort((a, b) => a - b)
    // Nine times as long on an idle machine. Its speed may change at any moment; the forecast has tests by a clock of its own.
    expect(told[27]).toBeLessThan(60 * seconds)
    expect(told[27]).toBeGreaterThan(seconds)
    expect(told[14]).toBeLessThan(0.8 * told[27]!)
    expect(told[0]).toBeLessThan(0.4 * told[27]!)
  } finally {
    await engine.close()
  }
  // Ten seconds on an idle machine; beside other engines many times as long.
}, 180_000)

test('a process that hangs is restarted', async () => {
  const error = vi.fn()
  const logger = { debug() {}, info() {}, warn() {}, error }
  // Long before the silence of the whole process is noticed.
  const engine = await LocalEngine.start(await loadCard(CARD), { silenceLimitMs: PULSE_LIMIT_MS / 2, logger })
  try {
    const generation = await generate(engine, chat, [endless()])
    await firstEvent(generation)
    const { pid } = engine
    process.kill(pid!, 'SIGSTOP')
    await expect(collect(generation)).rejects.toEqual(apiError({ status: 503, code: 'model_overloaded' }))
    await until(() => engine.state === 'ready')
    expect(engine.pid).not.toBe(pid)
    expect(error.mock.calls[0]![0]).toMatch(/^The engine process has not answered for \d+ ms; killing it\.$/m)
    expect((await run(engine, question, branch({ maxTokens: 2 }))).finishes).toHaveLength(1)
  } finally {
    await engine.close()
  }
})

describe('with room for two completions', () => {
  let engine: LocalEngine
  /** Runs long enough to be stopped by the test. */
  const busy = (n: number) => branch({ n, maxTokens: 1000, sampling: REPEATING })

  beforeAll(async () => {
    engine = await LocalEngine.start(await smallCard(2048, 2), { seed: 1, maxWaiting: 20 })
  })

  afterAll(() => engine?.close())

  test('organisations take turns, for any load from one of them', async () => {
    const controller = new AbortController()
    const running = await generate(engine, turn(untrusted('Busy?')), [busy(2)], { signal: controller.signal })
    await firstEvent(running)
    const order: string[] = []
    const ask = async (organisation: string, n: number) => {
      const generation = await generate(engine, [untrusted(`${organisation} ${n}`)], [branch({ n, maxTokens: 2 })], {
        organisation,
      })
      return { ended: collect(generation).then(() => order.push(organisation)) }
    }
    // All before the running one ends.
    const asked = await Promise.all([ask('many', 12), ask('many', 1), ask('one', 1), ask('other', 2)])
    controller.abort()
    await Promise.all(asked.map(({ ended }) => ended))
    expect(order).toEqual(['one', 'other', 'many', 'many'])
  })

  test('no request overtakes one that waits for cells', async () => {
    const controller = new AbortController()
    const running = await generate(engine, turn(untrusted('a b c '.repeat(100))), [busy(1)], {
      signal: controller.signal,
    })
    await firstEvent(running)
    const prompt = untrusted('one two three four five '.repeat(370))
    expect(await countTokens(engine, [prompt])).toBeGreaterThan(1800)
    const large = await generate(engine, [prompt], [branch({ maxTokens: 2 })])
    const small = await generate(engine, [untrusted('Hi')], [branch({ maxTokens: 2 })], { organisation: 'other' })
    // A sequence id is free, and the small request would fit.
    expect(await engine.stats()).toMatchObject({ running: 1, waiting: 2 })
    controller.abort()
    for (const { finishes } of await Promise.all([large, small].map(collect))) expect(finishes).toHaveLength(1)
    await expectAllFreed(engine)
  })
})

test('a prefix whose completions were all preempted is evicted for an older request', async () => {
  const engine = await LocalEngine.start(await smallCard(512, 4), { prefixCacheBytes: 0 })
  try {
    const older = await generate(engine, turn(untrusted('Old?')), [branch({ maxTokens: 480, sampling: REPEATING })])
    const ended = collect(older)
    const context = untrusted('word '.repeat(60))
    const branches = ['one', 'two'].map((text) =>
      branch({ suffix: turn(untrusted(text)), maxTokens: 350, sampling: REPEATING }),
    )
    const younger = await run(engine, [context], ...branches)
    expect(younger.finishes.map((finish) => finish.completionTokens)).toEqual([350, 350])
    expect((await ended).finishes[0]!.completionTokens).toBe(480)
    expect((await engine.stats()).preemptions).toBeGreaterThan(1)
    await expectAllFreed(engine)
  } finally {
    await engine.close()
  }
})

describe('the prefix cache', () => {
  let engine: LocalEngine

  beforeAll(async () => {
    engine = await LocalEngine.start(await smallCard(4096, 8), { prefixCacheBytes: 2048 * CELL_BYTES })
  })

  afterAll(() => engine?.close())

  let strangers = 0
  /** What is answered to an organisation for which nothing is in the cache. */
  async function uncached(prompt: PromptPart[], one = branch()) {
    const generation = await generate(engine, prompt, [one], { organisation: `stranger ${strangers++}` })
    expect(generation.prompts[0]!.cachedTokens).toBe(0)
    return collect(generation)
  }

  test('a second turn computes only its new tokens, also after a picture, and answers as if it had computed all', async () => {
    const first = turn(picture(256, 192, 1), untrusted('What is in the picture, and where?'))
    const { texts } = await run(engine, first, branch({ maxTokens: 20 }))
    const firstTokens = await countTokens(engine, first)
    const second = [...first, untrusted(texts['0.0']!), trusted('<|im_end|>\n'), ...turn(untrusted('And what else?'))]
    const before = await engine.stats()
    const generation = await generate(engine, second, [branch({ maxTokens: 20 })])
    const [prompt] = generation.prompts
    expect(prompt!.cachedTokens).toBeGreaterThanOrEqual(firstTokens)
    expect(prompt!.cachedTokens).toBeLessThan(prompt!.promptTokens)
    const answer = await collect(generation)
    const after = await engine.stats()
    expect(after.reusedTokens - before.reusedTokens).toBe(prompt!.cachedTokens)
    // The last token of the prompt is not prefilled: it is the first to be decoded.
    expect(after.prefilledTokens - before.prefilledTokens).toBe(prompt!.promptTokens - prompt!.cachedTokens - 1)
    expect(answer).toEqual(await uncached(second, branch({ maxTokens: 20 })))
    await expectAllFreed(engine)
  })

  test('the same prompt again computes its last token only', async () => {
    const prompt = turn(picture(192, 192, 2), untrusted('The very same question.'))
    const first = await run(engine, prompt, branch())
    const generation = await generate(engine, prompt, [branch()])
    expect(generation.prompts[0]!.cachedTokens).toBe(generation.prompts[0]!.promptTokens - 1)
    expect(await collect(generation)).toEqual(first)
  })

  test('another picture in the same place is not the same', async () => {
    const prompt = (seed: number) =>
      turn(picture(256, 256, seed), untrusted('What is in the picture, and where is it?'))
    await run(engine, prompt(11), branch())
    const generation = await generate(engine, prompt(12), [branch()])
    expect(generation.prompts[0]!.cachedTokens).toBe(0)
    expect(await collect(generation)).toEqual(await uncached(prompt(12)))
  })

  test.each([
    ['picture', [picture(256, 256, 3), untrusted('A question that two organisations ask.')]],
    ['text', [untrusted('A question that two organisations ask, each in the very same words.')]],
  ])('nothing crosses between organisations: %s', async (_, parts) => {
    const prompt = turn(...parts)
    await run(engine, prompt, branch())
    const generation = await generate(engine, prompt, [branch()], { organisation: 'another' })
    expect(generation.prompts[0]!.cachedTokens).toBe(0)
    const before = await engine.stats()
    await collect(generation)
    expect((await engine.stats()).reusedTokens).toBe(before.reusedTokens)
  })

  test('a prompt that begins like one that is being answered shares what is there', async () => {
    const prompt = (question: string) => turn(picture(256, 256, 6), untrusted(question))
    const controller = new AbortController()
    await firstEvent(await generate(engine, prompt('Tell me all.'), [endless(1)], { signal: controller.signal }))
    const generation = await generate(engine, prompt('How many?'), [branch()])
    expect(generation.prompts[0]!.cachedTokens).toBeGreaterThanOrEqual(66)
    const stranger = await generate(engine, prompt('How many?'), [branch()], { organisation: 'stranger' })
    expect(stranger.prompts[0]!.cachedTokens).toBe(0)
    const answer = await collect(generation)
    expect(await collect(stranger)).toEqual(answer)
    controller.abort()
    await expectAllFreed(engine)
  })

  test('an aborted request leaves what it computed', async () => {
    const prompt = turn(picture(256, 256, 4), untrusted('A question that is asked, and asked again.'))
    const controller = new AbortController()
    await firstEvent(await generate(engine, prompt, [endless(1)], { signal: controller.signal }))
    controller.abort()
    const generation = await generate(engine, prompt, [branch({ maxTokens: 1 })])
    expect(generation.prompts[0]!.cachedTokens).toBe(generation.prompts[0]!.promptTokens - 1)
    await collect(generation)
  })

  test('branches over a picture seen before find its prefill, and report reuse within the request only', async () => {
    const context = [trusted('<|im_start|>user\n'), picture(256, 256, 5)]
    const branches = ['red', 'blue'].map((colour) =>
      branch({ suffix: [untrusted(`Is it ${colour}?`), trusted('<|im_end|>\n'), assistant] }),
    )
    const first = await run(engine, context, ...branches)
    const before = await engine.stats()
    const generation = await generate(engine, context, branches)
    expect(generation.prompts.map((prompt) => prompt.cachedTokens > 0)).toEqual([false, true])
    expect(await collect(generation)).toEqual(first)
    expect((await engine.stats()).reusedTokens - before.reusedTokens).toBe(await countTokens(engine, context))
  })

  test('takes no room from running work, and no more than it may itself', async () => {
    for (let i = 0; i < 30; i++) await run(engine, [longText(`${i}`, 14)], branch({ maxTokens: 1 }))
    // The last text may not be copied yet, and then takes the place of the first.
    const expectCopies = async () => {
      const { cachedCells } = await expectAllFreed(engine)
      expect(cachedCells).toBeGreaterThan(20 * 66)
      expect(cachedCells).toBeLessThanOrEqual(2048)
    }
    await expectCopies()
    const large = untrusted('one two three four five '.repeat(760))
    const promptTokens = await countTokens(engine, [large])
    expect(promptTokens).toBeGreaterThan(4096 - 20 * 66)
    const { finishes } = await run(engine, [large], branch({ maxTokens: 4096 - promptTokens }))
    expect(finishes).toHaveLength(1)
    await expectCopies()
  })

  test('requests that begin alike and come together compute the beginning once', async () => {
    const context = 'one two three four five '.repeat(120)
    const prompt = (i: number) => turn(untrusted(`Shared by all: ${context}`), untrusted(`What of ${i}?`))
    const contextTokens = await countTokens(engine, prompt(0).slice(0, -2))
    expect(contextTokens).toBeGreaterThan(512)
    const before = await engine.stats()
    const answers = await Promise.all(Array.from({ length: 5 }, (_, i) => run(engine, prompt(i), branch())))
    const { prefilledTokens } = await expectAllFreed(engine)
    expect(prefilledTokens - before.prefilledTokens).toBeLessThan(contextTokens + 5 * 32)
    for (const [i, answer] of answers.entries()) expect(answer).toEqual(await uncached(prompt(i)))
  })

  test('those that wait for another compute it themselves when that one is aborted', async () => {
    const prompt = (i: number) => turn(untrusted('an aborted beginning '.repeat(300)), untrusted(`What of ${i}?`))
    const controller = new AbortController()
    await generate(engine, prompt(0), [branch()], { signal: controller.signal })
    const waiting = await generate(engine, prompt(1), [branch()])
    controller.abort()
    expect(await collect(waiting)).toEqual(await uncached(prompt(1)))
    await expectAllFreed(engine)
  })
})

describe('any schedule', () => {
  let engine: LocalEngine

  beforeAll(async () => {
    // Small enough that requests compete for cells.
    engine = await LocalEngine.start(await smallCard(320, 6), { maxWaiting: 100, prefixCacheBytes: 200 * CELL_BYTES })
  })

  afterAll(() => engine?.close())

  test('ends, every request with all of its completions or aborted, and no cell is lost', async () => {
    const request = fc.record({
      organisation: fc.constantFrom('a', 'b', 'c'),
      words: fc.nat(15),
      picture: fc.option(fc.nat(3)),
      branches: fc.array(
        fc.record({
          suffix: fc.nat(10),
          n: fc.integer({ min: 1, max: 6 }),
          maxTokens: fc.constantFrom(0, 1, 20, 150, 150),
          hot: fc.constantFrom(true, true, false),
        }),
        { minLength: 1, maxLength: 4 },
      ),
      abortAfterMs: fc.option(fc.nat(100)),
      pauseMs: fc.nat(20),
    })
    const play = async (requests: (typeof request extends fc.Arbitrary<infer T> ? T : never)[]) => {
      const ended: Promise<void>[] = []
      for (const { organisation, words, picture: seed, branches, abortAfterMs, pauseMs } of requests) {
        const prefix: PromptPart[] = [untrusted('word '.repeat(words + 1))]
        if (seed !== null) prefix.unshift(picture(192, 192, 50 + seed))
        const controller = new AbortController()
        const generation = await generate(
          engine,
          prefix,
          branches.map(({ suffix, n, maxTokens, hot }) => {
            const text = suffix === 0 ? [] : [untrusted(' question'.repeat(suffix))]
            return branch({ suffix: text, n, maxTokens, ...(hot ? { sampling: RANDOM } : {}) })
          }),
          { organisation, signal: controller.signal },
        )
        const completions = branches.reduce((sum, { n }) => sum + n, 0)
        ended.push(
          collect(generation).then(
            ({ finishes }) => expect(finishes).toHaveLength(completions),
            (error) => expect(error).toBe(controller.signal.reason),
          ),
        )
        if (abortAfterMs !== null) setTimeout(() => controller.abort(), abortAfterMs)
        await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
      await Promise.all(ended)
      await expectAllFreed(engine)
    }
    await fc.assert(fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 12 }), play), { numRuns: 8 })
    // Whether the drawn requests compete depends on the machine; these always do.
    await run(engine, turn(untrusted('Go.')), branch({ n: 6, maxTokens: 150, sampling: REPEATING }))
    expect((await engine.stats()).preemptions).toBeGreaterThan(0)
  })
})
