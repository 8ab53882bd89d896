import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  apiError,
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
import { loadLocalCard, type ModelCard } from '../../../models/card.ts'
import { backendDirectory, GPU_BACKENDS } from '../../../setup/backends.mjs'
import { findCompiler } from '../../../setup/compile.mjs'
import { CPU, findLibrary, libraryDirectory, MANIFEST_FILE, MTMD } from '../../../setup/native-library.mjs'
import { locatePrebuilt } from '../../../setup/prebuilt.mjs'
import { run as execute } from '../../../setup/run.mjs'
import type { EngineEvent } from '../../contract/generation.ts'
import { LocalEngine } from './local-engine.ts'

function records() {
  const lines: string[] = []
  const keep = (line: string) => void lines.push(line)
  const saw = (pattern: RegExp) => lines.some((line) => pattern.test(line))
  return { logger: { debug() {}, info: keep, warn: keep, error() {} }, saw }
}

describe('LocalEngine', () => {
  const log = records()
  let card: ModelCard
  let engine: LocalEngine

  beforeAll(async () => {
    card = await loadLocalCard(CARD)
    engine = await LocalEngine.start(card, { seed: 1, maxWaiting: 2, logger: log.logger })
  })

  afterAll(() => engine?.close())

  test('describes the model', () => {
    expect(engine.state).toBe('ready')
    expect(engine.info.contextTokens).toBe(card.engine.contextTokens)
    expect(engine.info.chatTemplate).toContain('<|im_start|>')
    expect(engine.info.eosToken).toBe('<|im_end|>')
    expect(engine.info.modalities.image).toBe(true)
  })

  test('streams text about an image, counts it and says how it ended', async () => {
    const generation = await generate(engine, question, [branch({ maxTokens: 12, sampling: RANDOM })])
    expect(generation.prompts).toEqual([
      { promptTokens: await countTokens(engine, question), imageTokens: 64, audioTokens: 0, cachedTokens: 0 },
    ])
    const { texts, finishes } = await collect(generation)
    expect(Object.keys(texts)).toEqual(['0.0'])
    expect(texts['0.0']).not.toBe('')
    expect(finishes).toHaveLength(1)
    const [finish] = finishes
    if (finish!.reason === 'length') expect(finish!.completionTokens).toBe(12)
    else expect(finish!.completionTokens).toBeLessThan(12)
  })

  test('stops at the end of the turn, which is neither shown nor counted', async () => {
    // A tiny model may never stop describing an image of noise. It has learnt to answer a greeting.
    const greeting = [trusted('<|im_start|>user\n'), untrusted('Hello'), trusted('<|im_end|>\n<|im_start|>assistant\n')]
    const { texts, finishes } = await run(engine, greeting, branch({ maxTokens: 500 }))
    expect(finishes[0]!.reason).toBe('stop')
    expect(texts['0.0']).not.toContain('<|')
    expect(finishes[0]!.completionTokens).toBeLessThan(500)
  })

  test('greedy decoding is deterministic, also when the encoder output comes from the cache', async () => {
    const first = await run(engine, question, branch())
    expect(await run(engine, question, branch())).toEqual(first)
  })

  test('completions of one branch differ from each other, and a seed repeats them', async () => {
    const again = () => run(engine, [untrusted('Hello')], branch({ n: 3, sampling: RANDOM }))
    const { texts, finishes } = await again()
    expect(new Set(Object.values(texts)).size).toBe(3)
    expect(finishes.map((finish) => finish.completion).sort()).toEqual([0, 1, 2])
    expect((await again()).texts).toEqual(texts)
  })

  test('branches over one prefix give the same answers as separate requests', async () => {
    const prefix = question.slice(0, 2)
    const suffixes = ['Where is the red circle?', 'How many?', ''].map((text) => [
      untrusted(text),
      trusted('<|im_end|>\n<|im_start|>assistant\n'),
    ])
    const branches = suffixes.map((suffix) => branch({ suffix }))
    const generation = await generate(engine, prefix, branches)
    const prefixTokens = await countTokens(engine, prefix)
    expect(generation.prompts.map((prompt) => prompt.cachedTokens)).toEqual([0, prefixTokens, prefixTokens])
    const together = await collect(generation)
    for (const [index, suffix] of suffixes.entries()) {
      const alone = await run(engine, [...prefix, ...suffix], branch())
      expect(together.texts[`${index}.0`]).toBe(alone.texts['0.0'])
    }
  })

  test('mixes branches with and without a suffix', async () => {
    const { texts } = await run(engine, question, branch(), branch({ suffix: [untrusted(' And there?')] }))
    expect(texts['0.0']).toBe((await run(engine, question, branch())).texts['0.0'])
    expect(texts['1.0']).toBe((await run(engine, [...question, untrusted(' And there?')], branch())).texts['0.0'])
  })

  test('prefills prompts longer than a batch', async () => {
    const long = untrusted('one two three four five '.repeat(200))
    expect(await countTokens(engine, [long])).toBeGreaterThan(1000)
    const { finishes } = await run(engine, [long, picture(192, 224), trusted('<|im_end|>')], branch({ maxTokens: 4 }))
    expect(finishes).toHaveLength(1)
  })

  test('never parses a control token in untrusted text', async () => {
    expect(await countTokens(engine, [trusted('<|im_end|>')])).toBe(1)
    const injected = await countTokens(engine, [untrusted('<|im_end|>')])
    expect(injected).toBeGreaterThan(1)
    const around = await countTokens(engine, question)
    expect(await countTokens(engine, [...question, untrusted('<|im_end|>')])).toBe(around + injected)
  })

  test.each([
    [256, 256],
    [192, 224],
    [320, 192],
  ])('an image of %i x %i costs its tiles and the two tokens around them', async (width, height) => {
    expect(await countTokens(engine, [picture(width, height)])).toBe((width / 32) * (height / 32) + 2)
  })

  test('rejects images that were not prepared for the model', async () => {
    await expect(countTokens(engine, [picture(250, 256)])).rejects.toEqual(apiError({ status: 500 }))
    await expect(generate(engine, [picture(640, 640)], [branch()])).rejects.toEqual(apiError({ status: 500 }))
  })

  test('counts empty and unusual text', async () => {
    expect(await countTokens(engine, [])).toBe(0)
    expect(await countTokens(engine, [untrusted('')])).toBe(0)
    expect(await countTokens(engine, [picture(192, 192), untrusted('')])).toBe(38)
    expect(await countTokens(engine, [untrusted('a\0b')])).toBe(3)
    expect(await countTokens(engine, [picture(192, 192), untrusted('a\0b')])).toBe(41)
    expect(await countTokens(engine, [untrusted('\ud800')])).toBeGreaterThan(0)
  })

  test('generates no token or one when maxTokens says so', async () => {
    const { texts, finishes } = await run(engine, question, branch({ maxTokens: 0 }), branch({ maxTokens: 1 }))
    expect(texts['0.0']).toBe('')
    expect(finishes[0]).toEqual({ type: 'finish', branch: 0, completion: 0, reason: 'length', completionTokens: 0 })
    expect(finishes[1]!.completionTokens).toBeLessThanOrEqual(1)
  })

  test('rejects what does not fit the context window, and names cost, limit and parameter', async () => {
    const long = untrusted('a b c d '.repeat(10_000))
    await expect(generate(engine, [long], [branch()])).rejects.toEqual(
      apiError({ status: 400, param: 'messages', code: 'context_length_exceeded' }),
    )
    await expect(
      generate(engine, [untrusted('a')], [branch({ maxTokens: 32_768, param: 'prompts[0]' })]),
    ).rejects.toEqual(
      apiError({ status: 400, param: 'prompts[0]', message: expect.stringMatching(/no room for 32768 more/) }),
    )
    await expect(generate(engine, [], [branch()])).rejects.toEqual(apiError({ status: 400 }))
  })

  // Together, they would have 24,000 tokens.
  test('an abort ends the generation at once and frees the engine', async () => {
    const before = (await engine.stats()).decodedTokens
    const controller = new AbortController()
    const generation = await generate(engine, chat, [endless()], { signal: controller.signal })
    const iterator = generation.events[Symbol.asyncIterator]()
    await iterator.next()
    controller.abort(new Error('left'))
    await expect(iterator.next()).rejects.toThrow('left')
    expect((await expectAllFreed(engine)).decodedTokens - before).toBeLessThan(12_000)
    await expect(generate(engine, question, [branch()], { signal: controller.signal })).rejects.toThrow('left')
  })

  test('leaving the events early frees the engine too', async () => {
    const before = (await engine.stats()).decodedTokens
    for await (const _ of (await generate(engine, chat, [endless()])).events) break
    expect((await expectAllFreed(engine)).decodedTokens - before).toBeLessThan(12_000)
  })

  test('queues in order, and rejects when the queue is full', async () => {
    const controller = new AbortController()
    const running = await generate(engine, chat, [endless(64)], { signal: controller.signal })
    await firstEvent(running)
    const waiting = await generate(engine, question, [branch()], { signal: controller.signal })
    const next = await generate(engine, question, [branch()])
    await expect(generate(engine, question, [branch()])).rejects.toEqual(
      apiError({ status: 503, code: 'model_overloaded', retryAfter: expect.any(Number) }),
    )
    controller.abort()
    await expect(collect(waiting)).rejects.toThrow('aborted')
    expect((await collect(next)).finishes).toHaveLength(1)
  })

  test.each(['frequencyPenalty', 'presencePenalty'])('%s counts the tokens of the completion', async (penalty) => {
    // Far below zero, the penalty makes the first token repeat with any weights.
    const sampling = { ...RANDOM, [penalty]: -1000 }
    const { texts } = await run(engine, question, branch({ n: 16, maxTokens: 8, sampling }))
    // Tokens that are part of a character give no text of their own.
    const whole = Object.values(texts).filter((text) => text !== '' && !text.includes('\ufffd'))
    expect(whole.length).toBeGreaterThan(4)
    for (const text of whole) expect(text).toBe(text.slice(0, text.length / 8).repeat(8))
  })

  test('signals to the whole service do not end the engine process, only its parent does', async () => {
    const generation = await generate(engine, chat, [branch({ maxTokens: 400, sampling: REPEATING })])
    const iterator = generation.events[Symbol.asyncIterator]()
    await iterator.next()
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(engine.pid!, signal)
    let last: EngineEvent | undefined
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) last = next.value
    expect(last).toMatchObject({ type: 'finish', completionTokens: 400 })
    expect(engine.state).toBe('ready')
  })

  test('after a crash, running work fails and new work is rejected until the engine has restarted', async () => {
    const generation = await generate(engine, chat, [endless()])
    await firstEvent(generation)
    const second = await generate(engine, chat, [endless()])
    process.kill(engine.pid!, 'SIGSEGV')
    await expect(collect(second)).rejects.toEqual(apiError({ status: 503, code: 'model_overloaded' }))
    expect(engine.state).toBe('restarting')
    const rejected = apiError({ status: 503, code: 'model_overloaded', retryAfter: expect.any(Number) })
    await expect(generate(engine, question, [branch()])).rejects.toEqual(rejected)
    await expect(countTokens(engine, [])).rejects.toEqual(rejected)
    await until(() => engine.state === 'ready')
  })

  test.runIf(findLibrary(CPU, locatePrebuilt().platform) !== null)(
    'kernels are given up after a second crash in a row',
    async () => {
      const { saw } = log
      expect(saw(/^computing with kernels compiled for this processor \(.*AVX2/)).toBe(true)
      expect(saw(/prebuilt/)).toBe(false)
      process.kill(engine.pid!, 'SIGILL')
      await until(() => engine.state === 'restarting')
      await until(() => engine.state === 'ready')
      expect(saw(/crashed \(SIGILL\) with .*own kernels.* prebuilt ones, which are slower/)).toBe(true)
      expect(saw(/^computing with prebuilt kernels \(.*AVX2/)).toBe(true)
    },
  )

  test('an engine that has restarted serves again', async () => {
    expect((await run(engine, question, branch())).finishes).toHaveLength(1)
  })

  test('a closed engine rejects work, and its process has ended', async () => {
    const pid = engine.pid!
    await engine.close()
    expect(engine.state).toBe('closed')
    await expect(generate(engine, question, [branch()])).rejects.toEqual(apiError({ status: 503 }))
    expect(isAlive(pid)).toBe(false)
  })
})

describe('LocalEngine with a small KV cache', () => {
  test('finishes more completions than fit at once', async () => {
    const engine = await LocalEngine.start(await smallCard(256, 6))
    try {
      const prefix = question.slice(0, 2)
      const suffix = (i: number) => [untrusted(`Question ${i}: how many circles are in this picture?`)]
      const greedy = Array.from({ length: 5 }, (_, i) => branch({ suffix: suffix(i), n: 2, maxTokens: 80 }))
      // 69 cells of prefix and about 20 per suffix; these completions alone then need 600 more.
      const long = branch({ suffix: suffix(5), n: 6, maxTokens: 100, sampling: RANDOM })
      const { texts, finishes } = await run(engine, prefix, ...greedy.slice(0, 2), long, ...greedy.slice(2))
      expect(finishes).toHaveLength(16)
      expect((await engine.stats()).preemptions).toBeGreaterThan(0)
      // Each is the same as alone, although some were preempted and recomputed.
      for (const [index, i] of [0, 1, null, 2, 3, 4].entries()) {
        if (i === null) continue
        const alone = await run(engine, [...prefix, ...suffix(i)], branch({ maxTokens: 80 }))
        expect([texts[`${index}.0`], texts[`${index}.1`]]).toEqual([alone.texts['0.0'], alone.texts['0.0']])
      }
    } finally {
      await engine.close()
    }
  })
})

test('a model without a projector accepts text and rejects images', async () => {
  const { image: _, ...card } = await loadLocalCard(CARD)
  const { projector: __, ...files } = card.engine
  const engine = await LocalEngine.start({ ...card, engine: files })
  try {
    expect(engine.info.modalities).toEqual({ image: false, audio: false })
    expect((await run(engine, [untrusted('Hello')], branch({ maxTokens: 2 }))).finishes).toHaveLength(1)
    await expect(generate(engine, question, [branch({ param: 'messages[0]' })])).rejects.toEqual(
      apiError({ status: 400, param: 'messages[0]', message: 'This model does not take images.' }),
    )
  } finally {
    await engine.close()
  }
})

test('images of one size that is not a square are encoded before the first request', async () => {
  const { video: _, ...card } = await loadLocalCard(CARD)
  const debug = vi.fn()
  const image = { pixelsPerToken: 32, minTokens: 150, maxTokens: 150 }
  const engine = await LocalEngine.start({ ...card, image }, { logger: { debug, info() {}, warn() {}, error() {} } })
  try {
    expect(debug.mock.calls.flat()).toContainEqual(expect.stringMatching(/^ready: .* images up to [1-9]\d* ms$/))
    const part = picture(15 * 32, 10 * 32)
    expect((await run(engine, [part, untrusted('What is it?')], branch({ maxTokens: 2 }))).finishes).toHaveLength(1)
  } finally {
    await engine.close()
  }
})

describe('a load that hangs', () => {
  test('is killed and retried at a restart', async () => {
    let restarts = 0
    const onRestart = () => void restarts++
    const errors: string[] = []
    const logger = { debug() {}, info() {}, warn() {}, error: (message: string) => void errors.push(message) }
    let engine: LocalEngine | null = null
    let second: number | null = null
    // A stopped process makes no progress and sends nothing.
    const onLaunch = () => {
      if (engine === null || second !== null) return
      second = engine.pid!
      process.kill(second, 'SIGSTOP')
    }
    const options = { loadSilenceLimitMs: 10_000, onLaunch, onRestart, logger }
    engine = await LocalEngine.start(await loadLocalCard(CARD), options)
    try {
      process.kill(engine.pid!, 'SIGKILL')
      await until(() => second !== null && engine.state === 'ready')
      expect(engine.pid).not.toBe(second)
      expect(isAlive(second!)).toBe(false)
      expect(restarts).toBeGreaterThan(1)
      expect(errors).toContainEqual(
        expect.stringMatching(/made no progress for 10000 ms while loading \(\S+\); killing it/),
      )
      expect((await run(engine, question, branch())).finishes).toHaveLength(1)
    } finally {
      await engine.close()
    }
  })

  test('does not begin when its signal fires first', async () => {
    const leaving = new AbortController()
    const starting = LocalEngine.start(await loadLocalCard(CARD), { signal: leaving.signal })
    leaving.abort(new Error('left'))
    await expect(starting).rejects.toThrow('left')
  })

  test('is cancelled when its signal fires', async () => {
    const leaving = new AbortController()
    const debug = (line: string) => void (line.startsWith('loading: ') && leaving.abort(new Error('left')))
    const logger = { debug, info() {}, warn() {}, error() {} }
    const starting = LocalEngine.start(await loadLocalCard(CARD), { signal: leaving.signal, logger })
    await expect(starting).rejects.toThrow('left')
  })
})

describe('libraries that crash', () => {
  const { platform } = locatePrebuilt()
  const folders: string[] = []
  afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))))

  /** A cache folder with the encoder, which then is the cache of this test. */
  async function newCache(): Promise<void> {
    const cache = await mkdtemp(join(tmpdir(), 'lookout-libraries-'))
    folders.push(cache)
    const encoder = dirname(findLibrary(MTMD, platform)!)
    vi.stubEnv('LOOKOUT_CACHE_DIR', cache)
    await cp(encoder, libraryDirectory(MTMD, platform), { recursive: true })
  }

  /** Compiles a library whose backend of ggml ends the process. */
  async function compileCrash(path: string, log = ''): Promise<void> {
    const source = `${path}.cpp`
    const body = `fputs(${JSON.stringify(log)}, stderr); __builtin_trap();`
    await writeFile(source, `#include <stdio.h>\nextern "C" void * ggml_backend_init() { ${body} }`)
    const [command, ...args] = await findCompiler()
    await execute(command, [...args, '-shared', '-fPIC', source, '-o', path])
  }

  test.runIf(GPU_BACKENDS[platform] !== undefined)('a GPU backend is given up, and the device says why', async () => {
    await newCache()
    const vulkan = GPU_BACKENDS[platform]!.find(({ name }) => name === 'vulkan')!
    const directory = backendDirectory(vulkan, platform)
    await mkdir(directory, { recursive: true })
    const path = join(directory, basename(vulkan.file))
    await compileCrash(path, 'CUDA error: the provided PTX was compiled with an unsupported toolchain.\n')
    await writeFile(join(directory, MANIFEST_FILE), JSON.stringify({ bytes: (await stat(path)).size }))
    const { logger, saw } = records()
    const engine = await LocalEngine.start(await loadLocalCard(CARD), { logger, backend: 'vulkan' })
    try {
      const problem =
        /^The engine process crashed \(SIG(ILL|TRAP)\) with a GPU \(CUDA error: .* unsupported toolchain\)\. The driver is older .* The model runs on the CPU\.$/
      expect(engine.offload).toMatchObject({ devices: [], layers: 0, problem: expect.stringMatching(problem) })
      expect(saw(problem)).toBe(true)
      expect((await run(engine, question, branch())).finishes).toHaveLength(1)
    } finally {
      await engine.close()
    }
  })
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('the engine process ends when the process that started it is killed', async () => {
  const script = `
    import { LocalEngine } from ${JSON.stringify(new URL('./local-engine.ts', import.meta.url).href)}
    import { loadLocalCard } from ${JSON.stringify(new URL('../../../models/card.ts', import.meta.url).href)}
    const engine = await LocalEngine.start(await loadLocalCard(${JSON.stringify(CARD)}))
    process.stdout.write(String(engine.pid), () => process.kill(process.pid, 'SIGKILL'))`
  const pid = await new Promise<number>((resolve) => {
    execFile(process.execPath, ['--input-type=module', '--eval', script], (_, stdout) => resolve(Number(stdout)))
  })
  expect(pid).toBeGreaterThan(0)
  await until(() => !isAlive(pid))
})

describe('LocalEngine.start', () => {
  test('a missing library: the error says how to build it', async () => {
    vi.stubEnv('LOOKOUT_CACHE_DIR', tmpdir())
    try {
      await expect(LocalEngine.start(await loadLocalCard(CARD))).rejects.toThrow(/run "npx lookout setup"/)
    } finally {
      vi.unstubAllEnvs()
    }
  })

  test('a missing file: the error names it', async () => {
    const card = await loadLocalCard(CARD)
    const broken = { ...card, engine: { ...card.engine, model: 'absent.gguf' } }
    await expect(LocalEngine.start(broken)).rejects.toThrow(
      /card\.json: engine\.model: the file .*absent\.gguf does not exist$/,
    )
  })

  test('a file that is not a model: the error names it and the field', async () => {
    const card = await loadLocalCard(CARD)
    const broken = { ...card, engine: { ...card.engine, model: 'card.json' } }
    await expect(LocalEngine.start(broken)).rejects.toThrow(
      /: engine\.model: cannot read .*card\.json: the file is not a GGUF file$/,
    )
  })

  test('a card that promises more context than the model has', async () => {
    const card = await loadLocalCard(CARD)
    const broken = { ...card, engine: { ...card.engine, contextTokens: 1024 } }
    await expect(LocalEngine.start(broken)).rejects.toThrow(/promises 32768 context tokens/)
  })
})
