import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { type FakeHub, startFakeHub } from './support/fake-hub.ts'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'

/** Pulls over HTTP whose process is ended by another than the server, as a system without memory does it. */
let server: TestServer
let hub: FakeHub
let home: string
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'lookout-pulls-'))
  hub = await startFakeHub()
  hub.repositories.set('acme/nano-GGUF', new Map([['nano-Q4_K_M.gguf', await model()]]))
  vi.stubEnv('HF_ENDPOINT', hub.url)
  vi.stubEnv('HF_HOME', home)
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await hub[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

/** So long that a download can stop behind the header. What follows the tensors is not read. */
const model = async () => Buffer.concat([await readFile('models/lookout-nano/model-f16.gguf'), Buffer.alloc(2 ** 22)])
const pull = () => server.post('/v1/models/pull', { model: 'acme/nano-GGUF', examine: false })

/** Sends a signal to the process that pulls. */
function signalPull(signal: NodeJS.Signals): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const [, parent] = /^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      if (Number(parent) === process.pid && command.includes('pull-program')) process.kill(Number(pid), signal)
    } catch {
      // It has ended since.
    }
  }
}

test.runIf(process.platform === 'linux').each([
  { signal: 'SIGKILL', when: 'before its first event' },
  { signal: 'SIGKILL', when: 'half way' },
  { signal: 'SIGTERM', when: 'half way' },
] as const)(
  'a pull that a $signal ends $when is an error of the server, and goes on later',
  async ({ signal, when }) => {
    const isEarly = when === 'before its first event'
    const kill = () => {
      signalPull(signal)
      return { kind: 'stall', after: 0 } as const
    }
    if (isEarly) hub.onAsk = kill
    else hub.onDownload = ({ range }) => (range?.endsWith('-1048575') ? undefined : kill())
    const response = await pull()
    const error = {
      type: 'server_error',
      code: null,
      message: expect.stringMatching(/^The pull was interrupted; .* resume/),
    }
    if (isEarly) {
      expect(response.status).toBe(503)
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await errorOf(response)).toMatchObject(error)
    } else {
      const last = (await response.text()).split('\n\n').findLast((line) => line.startsWith('data: {'))!
      expect(JSON.parse(last.slice('data: '.length)).error).toMatchObject(error)
    }

    hub.onAsk = () => undefined
    hub.onDownload = () => undefined
    const again = await pull()
    expect(await again.text()).toContain('"type":"done"')
  },
)
