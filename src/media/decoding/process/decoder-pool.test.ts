import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { ResidentMemory } from '../../../../test/support/resident-memory.ts'
import { partsToCut, planTiles } from '../../tile-plan.ts'
import { DecoderPool } from './decoder-pool.ts'
import type { Cuts, ImageTask } from './protocol.ts'

const target = { pixelsPerToken: 32, minTokens: 36, maxTokens: 64 }
const never = new AbortController().signal
const small = () =>
  sharp({ create: { width: 64, height: 64, channels: 3, background: '#ff0000' } })
    .png()
    .toBuffer()
/** For a process to start and decode a small picture: on a busy machine, five times 600 ms were too little. */
const AMPLE_MS = 3000
/** Takes long enough to decode that a test can act meanwhile. */
let large: Buffer

let pool: DecoderPool

beforeAll(async () => {
  const create = { width: 6000, height: 6000, channels: 3, background: '#00ff00' } as const
  large = await sharp({ create }).png({ compressionLevel: 1 }).toBuffer()
})
afterEach(() => pool.close())

const decode = (bytes: Uint8Array, param = 'p', signal = never, organisation = 'a') =>
  pool.decode({ type: 'image', data: bytes, target, region: null }, { organisation, param, signal })

/** Writes what decoders run in this test. */
async function programOf(source: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-decoder-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'decoder.mjs'), source)
  return join(folder, 'decoder.mjs')
}

/** Kills the process that decodes the input, and each further process that gets the same input. */
async function killEach(times: number): Promise<void> {
  let last: number | undefined
  for (let killed = 0; killed < times; killed++) {
    await expect.poll(() => pool.pids[0], { interval: 5 }).not.toBe(last)
    last = pool.pids[0]!
    process.kill(last, 'SIGKILL')
  }
}

it('processes that stay are started ahead, and decode inputs at the same time', async () => {
  pool = new DecoderPool({ size: 4, kept: 2 })
  pool.warmUp()
  const started = pool.pids
  expect(started).toHaveLength(2)
  await Promise.all([decode(await small()), decode(await small())])
  expect(pool.pids).toEqual(started)
})

it('an input gets a 503 where the system lets its process start no thread', async () => {
  const program = await programOf(`
    import sharp from '${import.meta.resolve('sharp')}'
    const message = 'glib: Error creating thread: Resource temporarily unavailable'
    sharp.prototype.toBuffer = async () => { throw new Error(message) }
    await import('${import.meta.resolve('./decoder-process.ts')}')`)
  pool = new DecoderPool({ size: 1, program, sandbox: 'off' })
  await expect(decode(await small())).rejects.toMatchObject({ status: 503, retryAfter: 5 })
})

it.runIf(process.platform === 'linux')('where memory runs out, a process ends before the server', async () => {
  pool = new DecoderPool({ size: 1 })
  await decode(await small())
  const scoreOf = async (pid: number | 'self') => Number(await readFile(`/proc/${pid}/oom_score_adj`, 'utf8'))
  expect(await scoreOf(pool.pids[0]!)).toBe(Math.min(1000, (await scoreOf('self')) + 500))
})

it('an input that crashes its process gets a 400, and the next one is decoded', async () => {
  // Inputs of more than a kilobyte crash it.
  const program = await programOf(`
    import ${JSON.stringify(new URL('./decoder-process.ts', import.meta.url))}
    const send = process.send.bind(process)
    let isFatal = false
    process.prependListener('message', ({ data }) => { isFatal = data?.length > 1024 })
    process.send = (event) => { send(event); if (event.ok === 'begins' && isFatal) process.abort() }`)
  pool = new DecoderPool({ size: 1, program })
  const doomed = decode(large, 'messages[0]')
  const next = decode(await small())
  await expect(doomed).rejects.toMatchObject({ status: 400, param: 'messages[0]' })
  expect((await next).original).toEqual({ width: 64, height: 64 })
})

it('an input is not at fault where the system kills its process, however often', async () => {
  pool = new DecoderPool({ size: 1 })
  const rejected = expect(decode(large)).rejects.toMatchObject({ status: 503, retryAfter: 5 })
  await Promise.all([rejected, killEach(2)])
  expect((await decode(large)).original.width).toBe(6000)
})

it('an input is not at fault where no process comes as far as to read it', async () => {
  // As Node does that can start no thread.
  pool = new DecoderPool({ size: 1, program: await programOf('process.abort()') })
  await expect(decode(large)).rejects.toMatchObject({ status: 503, retryAfter: 5 })
})

it('an input whose process is killed once is decoded in another', async () => {
  pool = new DecoderPool({ size: 1 })
  const [unlucky] = await Promise.all([decode(large), killEach(1)])
  expect(unlucky.original.width).toBe(6000)
})

it('other inputs are not affected', async () => {
  pool = new DecoderPool({ size: 2 })
  const big = large
  const doomed = [decode(big), decode(big)]
  const [first, second] = pool.pids
  process.kill(first!, 'SIGKILL')
  for (const { original } of await Promise.all(doomed)) expect(original.width).toBe(6000)
  expect(pool.pids).toContain(second)
})

it('time in which the server is too busy to receive the result does not count', async () => {
  pool = new DecoderPool({ size: 1, timeoutMs: AMPLE_MS })
  const good = decode(await small())
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, AMPLE_MS + 500)
  expect((await good).original.width).toBe(64)
})

it.runIf(process.platform === 'linux')('time in which other processes have the processor does not count', async () => {
  pool = new DecoderPool({ size: 1, timeoutMs: AMPLE_MS })
  await decode(await small())
  const [pid] = pool.pids
  process.kill(pid!, 'SIGSTOP')
  const good = decode(await small())
  setTimeout(() => process.kill(pid!, 'SIGCONT'), AMPLE_MS + 500)
  expect((await good).original.width).toBe(64)
  expect(pool.pids).toEqual([pid])
})

it.runIf(process.platform === 'linux')('large images are decoded one at a time', async () => {
  pool = new DecoderPool({ size: 3 })
  // All pixels of a progressive JPEG are in memory at once: 190 MiB of these.
  const jpeg = await sharp({ create: { width: 7000, height: 7000, channels: 3, background: '#00ff00' } })
    .jpeg({ progressive: true })
    .toBuffer()
  await decode(await small())
  await using memory = await ResidentMemory.watch()
  const all = await Promise.all(Array.from({ length: 3 }, () => decode(jpeg)))
  expect(all.map(({ original }) => original.width)).toEqual([7000, 7000, 7000])
  // The four processes themselves take 70 MiB each.
  expect(memory.growth / 2 ** 20).toBeLessThan(190 + 3 * 110)
})

describe('the queue', () => {
  it('is served in turn: one organisation’s images do not delay another’s', async () => {
    pool = new DecoderPool({ size: 1 })
    const bytes = await small()
    const order: string[] = []
    const ask = (organisation: string) =>
      decode(bytes, 'p', never, organisation).then(() => void order.push(organisation))
    await Promise.all(['a', 'a', 'a', 'a', 'b'].map(ask))
    expect(order.indexOf('b')).toBeLessThan(3)
  })

  it('is limited, for one organisation sooner than for all', async () => {
    pool = new DecoderPool({ size: 1, mostWaiting: 4 })
    const bytes = await small()
    const ask = (organisation: string) => decode(bytes, 'p', never, organisation)
    const busy = { status: 503, type: 'server_error', code: 'model_overloaded', retryAfter: 1 }
    // The first job starts at once and does not wait.
    const taken = ['a', 'a', 'a'].map(ask)
    await expect(ask('a')).rejects.toMatchObject(busy)
    taken.push(...['b', 'b'].map(ask))
    await expect(ask('c')).rejects.toMatchObject(busy)
    for (const { original } of await Promise.all(taken)) expect(original.width).toBe(64)
    expect((await ask('c')).original.width).toBe(64)
  })

  it('does not count aborted inputs', async () => {
    pool = new DecoderPool({ size: 1, mostWaiting: 2 })
    const bytes = await small()
    const client = new AbortController()
    const first = decode(bytes)
    const left = decode(bytes, 'p', client.signal)
    await expect(decode(bytes)).rejects.toMatchObject({ status: 503 })
    client.abort(new Error('client disconnected'))
    await expect(left).rejects.toThrow('client disconnected')
    await Promise.all([first, decode(bytes)])
  })
})

it('an input that takes too long gets a 400, and its process is replaced', async () => {
  pool = new DecoderPool({ size: 1, timeoutMs: 20 })
  const doomed = decode(large)
  const [slow] = pool.pids
  await expect(doomed).rejects.toMatchObject({ status: 400, message: /too long/ })
  await expect.poll(() => isAlive(slow!)).toBe(false)
  expect(pool.pids).not.toContain(slow)
})

it('an aborted input is not decoded to its end', async () => {
  pool = new DecoderPool({ size: 1 })
  const controller = new AbortController()
  const unwanted = decode(large, 'p', controller.signal)
  const [busy] = pool.pids
  // However quick the machine, it does not end before the client leaves.
  process.kill(busy!, 'SIGSTOP')
  controller.abort(new Error('client disconnected'))
  await expect(unwanted).rejects.toThrow('client disconnected')
  expect((await decode(await small())).original.width).toBe(64)
  expect(pool.pids).not.toContain(busy)
})

// On other systems the shell accepts the limit without enforcing it.
it.runIf(process.platform === 'linux')('a decoder’s memory is limited', async () => {
  pool = new DecoderPool({ size: 1, memoryBytes: 2 ** 30 })
  await decode(await small())
  const limits = await readFile(`/proc/${pool.pids[0]}/limits`, 'utf8')
  expect(limits).toMatch(new RegExp(`Max data size +${2 ** 30} +${2 ** 30} +bytes`))
})

it('a decoder does not get the server’s environment, which may hold keys', async () => {
  process.env.LOOKOUT_TEST_SECRET = 'secret'
  pool = new DecoderPool({ size: 1 })
  await decode(await small())
  if (process.platform !== 'linux') return
  expect(await readFile(`/proc/${pool.pids[0]}/environ`, 'utf8')).not.toContain('secret')
})

it('what a decoder has compiled is kept before its first input, for the next one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-compiled-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  vi.stubEnv('NODE_COMPILE_CACHE', folder)
  vi.stubEnv('NODE_DISABLE_COMPILE_CACHE', undefined)
  pool = new DecoderPool({ size: 1 })
  await decode(await small())
  expect((await readdir(folder, { recursive: true })).length).toBeGreaterThan(20)
})

it('closing rejects waiting and running jobs', async () => {
  pool = new DecoderPool({ size: 1 })
  const big = large
  const failed = [decode(big), decode(big)].map((pending) => expect(pending).rejects.toThrow('closed'))
  await pool.close()
  await Promise.all(failed)
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe('parts of an image', () => {
  /** Each pixel says where it is, in steps of 16. */
  const places = (width: number, height: number) => {
    const data = Buffer.alloc(width * height * 3)
    for (let i = 0; i < width * height; i++) data.set([((i % width) >> 4) & 255, Math.floor(i / width) >> 4, 90], i * 3)
    return sharp(data, { raw: { width, height, channels: 3 } })
  }
  const cut = (bytes: Uint8Array, cuts: Cuts, limits: ImageTask['target'] = target) =>
    pool.decode(
      { type: 'image', data: bytes, target: limits, region: null, cuts },
      { organisation: 'a', param: 'p', signal: never },
    )

  it.each([1, 6])(
    'are those of the upright image, stretched as images are; EXIF orientation %i',
    async (orientation) => {
      pool = new DecoderPool({ size: 1 })
      const [width, height] = orientation === 6 ? [1000, 1600] : [1600, 1000]
      const upright = await places(1600, 1000).png().toBuffer()
      const turned = await sharp(upright)
        .rotate(orientation === 6 ? 270 : 0)
        .png()
        .toBuffer()
      const stored = await sharp(turned).withMetadata({ orientation }).png().toBuffer()
      expect(await sharp(stored).metadata()).toMatchObject({ width, height })
      const parts = [
        { left: 0, top: 0, width: 320, height: 320 },
        { left: 1280, top: 680, width: 320, height: 320 },
        { left: 500, top: 300, width: 40, height: 20 },
      ]
      const { image, original, cuts } = await cut(stored, parts)
      expect(original).toEqual({ width: 1600, height: 1000 })
      expect([image, ...cuts!].map(({ width, height }) => [width, height])).toEqual([
        [320, 192],
        [256, 256],
        [256, 256],
        [288, 160],
      ])
      for (const [index, { left, top, width, height }] of parts.entries()) {
        const { width: columns, height: rows, data } = cuts![index]!
        const middle = (Math.floor(rows / 2) * columns + Math.floor(columns / 2)) * 3
        expect(Math.abs(data[middle]! - ((left + width / 2) >> 4))).toBeLessThanOrEqual(1)
        expect(Math.abs(data[middle + 1]! - ((top + height / 2) >> 4))).toBeLessThanOrEqual(1)
      }
    },
  )

  it('are the first tiles of a plan, the coarsest first, and the image is the whole', async () => {
    pool = new DecoderPool({ size: 1 })
    const bytes = await places(900, 700).png().toBuffer()
    const wish = { grid: [4, 4], smallest: null } as const
    const parts = partsToCut(planTiles({ width: 900, height: 700 }, wish, target)!)
    expect(parts).toHaveLength(20)
    const [wished, explicit] = [await cut(bytes, wish), await cut(bytes, parts)].map(({ cuts }) => cuts!)
    expect(wished!.map(({ width, height }) => [width, height])).toEqual(
      explicit!.slice(0, 8).map(({ width, height }) => [width, height]),
    )
    // Vitest compares pixels one by one, which takes seconds.
    for (const [index, { data }] of wished!.entries()) expect(Buffer.compare(data, explicit![index]!.data)).toBe(0)
  })

  it('are none of more tiles than there may be, and of an image that is one tile', async () => {
    pool = new DecoderPool({ size: 1 })
    expect((await cut(await small(), { grid: [100, 100], smallest: null })).cuts).toBeUndefined()
    const plain = await decode(await small())
    expect(await cut(await small(), { grid: 'auto', smallest: null })).toEqual(plain)
  })

  it('are as many as take 64 MiB, and at least one', async () => {
    pool = new DecoderPool({ size: 1 })
    const parts = Array.from({ length: 9 }, (_, index) => ({ left: index, top: 0, width: 50, height: 50 }))
    expect((await cut(await small(), parts, { width: 2048, height: 2048 })).cuts).toHaveLength(5)
    expect((await cut(await small(), parts, { width: 4800, height: 4800 })).cuts).toHaveLength(1)
  })

  it('of a damaged image: a 400 that names it', async () => {
    pool = new DecoderPool({ size: 1 })
    const whole = await places(900, 700).jpeg().toBuffer()
    const damaged = cut(whole.subarray(0, whole.length / 2), { grid: [2, 2], smallest: null })
    await expect(damaged).rejects.toMatchObject({ status: 400, param: 'p' })
  })
})
