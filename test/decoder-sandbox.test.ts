import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'
import { afterEach, describe, expect, it } from 'vitest'
import { DecoderPool, type DecoderPoolOptions } from '../src/media/decoding/process/decoder-pool.ts'
import { CameraPool } from '../src/media/live/camera-pool.ts'
import { whyNoSeccomp } from '../src/media/sandbox/seccomp.ts'

const HOSTILE = fileURLToPath(new URL('./fixtures/hostile-decoder.ts', import.meta.url))
const VIDEO = 'docs/pictures/shapes.webm'
const INPUT = { organisation: 'a', param: 'p', signal: new AbortController().signal }
const reason = whyNoSeccomp()
const EPERM = 1

let pool: DecoderPool | undefined
afterEach(() => pool?.close())

const image = () =>
  sharp({ create: { width: 64, height: 64, channels: 3, background: '#ff0000' } })
    .png()
    .toBuffer()

async function decode(): Promise<unknown> {
  return pool!.decode({ type: 'image', data: await image(), target: { width: 32, height: 32 }, region: null }, INPUT)
}

interface Report {
  /** `done`, or an error's code. */
  readonly attempts: Readonly<Record<string, string>>
  /** Error numbers of system calls. */
  readonly calls: Readonly<Record<string, number>>
}

/** What a hostile decoder could do after it had decoded an image. */
async function attack(options: DecoderPoolOptions): Promise<Report> {
  pool = new DecoderPool({ size: 1, program: HOSTILE, ...options })
  const error = await decode().then(
    () => expect.unreachable(),
    (refusal: Error) => refusal,
  )
  return JSON.parse(error.message)
}

describe.skipIf(reason !== null)(`decoders are confined${reason === null ? '' : ` (skipped: ${reason})`}`, () => {
  it('a decoder can open no file, create no socket, run no program and signal no process', async () => {
    const { attempts, calls } = await attack({ sandbox: 'require' })
    expect(attempts).toEqual(Object.fromEntries(Object.keys(attempts).map((name) => [name, 'EPERM'])))
    expect(calls).toEqual(Object.fromEntries(Object.keys(calls).map((name) => [name, EPERM])))
    expect(Object.keys(attempts).length + Object.keys(calls).length).toBeGreaterThan(25)
  })

  it('nor can a process that has the sockets of cameras', async () => {
    const sent = createServer((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n')).listen(
      0,
      '127.0.0.1',
    )
    await once(sent, 'listening')
    const { port } = sent.address() as AddressInfo
    const cameras = new CameraPool({
      sandbox: 'require',
      program: fileURLToPath(new URL('./fixtures/hostile-camera.ts', import.meta.url)),
    })
    const told = Promise.withResolvers<string>()
    const url = `http://127.0.0.1:${port}/`
    const source = { type: 'jpeg', url, username: null, password: null, certificate: 'verify' } as const
    const camera = cameras.follow('a', source, null, {
      pace: { everyMs: 1_000, decode: 'auto' },
      onFrame: () => {},
      onState: () => told.resolve(camera.fault!),
    })
    try {
      const { attempts, calls }: Report = JSON.parse(await told.promise)
      expect(attempts).toEqual(Object.fromEntries(Object.keys(attempts).map((name) => [name, 'EPERM'])))
      expect(calls).toEqual(Object.fromEntries(Object.keys(calls).map((name) => [name, EPERM])))
    } finally {
      await cameras.close()
      sent.close()
    }
  })

  it('without the sandbox the same decoder can', async () => {
    const { attempts } = await attack({ sandbox: 'off' })
    for (const name of ['read a file', 'read a file in a new thread', 'write a file', 'listen', 'run a program']) {
      expect(attempts[name]).toBe('done')
    }
  })

  it('a decoder that has confined itself to images makes room for one that decodes everything', async () => {
    pool = new DecoderPool({ size: 1, sandbox: 'require' })
    await decode()
    const [images] = pool.pids
    const limits = { pixelsPerToken: 32, minTokens: 36, maxTokens: 64, framesPerSecond: 2, maxFrames: 64 }
    const file = { path: VIDEO, length: statSync(VIDEO).size }
    const task = { type: 'video', data: file, format: 'video/webm', limits, maxFrames: 4, sound: null } as const
    const { frames } = await pool.decode(task, INPUT)
    expect(frames.length).toBeGreaterThan(1)
    const [everything] = pool.pids
    expect(everything).not.toBe(images)
    await decode()
    expect(pool.pids).toEqual([everything])
  })

  it('every thread is confined, and none can get rights back', async () => {
    pool = new DecoderPool({ size: 1, sandbox: 'require' })
    await decode()
    const tasks = `/proc/${pool.pids[0]}/task`
    const threads = readdirSync(tasks).flatMap((id) => {
      try {
        return readFileSync(`${tasks}/${id}/status`, 'utf8')
      } catch {
        // It has ended meanwhile.
        return []
      }
    })
    expect(threads.length).toBeGreaterThan(1)
    for (const status of threads) expect(status).toMatch(/NoNewPrivs:\s1\n[\s\S]*Seccomp:\s2\n/)
  })
})
