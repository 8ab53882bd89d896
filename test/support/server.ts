import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import type { ErrorBody } from '../../src/lib/errors/errors.ts'
import { DecoderPool } from '../../src/media/decoding/process/decoder-pool.ts'
import { Service, type ServiceParts } from '../../src/service.ts'
import { FakeEngine } from './fake-engine.ts'

export const KEY = 'test-key'

export interface TestServer {
  readonly url: string
  /** Its data directory. */
  readonly directory: string
  readonly engine: FakeEngine
  readonly logs: string[]
  readonly service: Service
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>
  get(path: string, headers?: Record<string, string>): Promise<Response>
  close(): Promise<void>
}

export interface TestServerOptions extends ServiceParts {
  readonly engine?: FakeEngine
  readonly environment?: Record<string, string>
}

/** Those of all servers of this process: with one of its own, a server would take a third more work to start and stop. */
const sharedDecoders = new DecoderPool()

/** Starts the real service on a free port, with a fake engine unless `startEngine` is given. */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-test-'))
  const engine = options.engine ?? new FakeEngine()
  const logs: string[] = []
  const config = readConfig({
    LOOKOUT_PORT: '0',
    LOOKOUT_API_KEY: KEY,
    DATABASE_URL: inject('databaseUrl'),
    LOOKOUT_BLOBS: inject('blobs') ?? '',
    // Redis uses its own clock, not the test's.
    REDIS_URL: (options.clock ? null : inject('redisUrl')) ?? '',
    LOOKOUT_DATA_DIR: directory,
    LOOKOUT_RATE_LIMITS: 'off',
    // Servers of other tests share the database.
    LOOKOUT_BATCH_LINES: '0',
    LOOKOUT_WATCHES: '0',
    ...options.environment,
  })
  const service = await Service.start(config, {
    startEngine: async () => engine,
    decoders: sharedDecoders,
    logs: { write: (line) => void logs.push(line) },
    graceMs: 200,
    // Servers of other tests share the database, which runs one statement at a time.
    database: { connectTimeoutMs: 60_000, queryTimeoutMs: 60_000 },
    // No test measures, which would take seconds.
    machineSpeed: async () => ({ bytesPerSecond: 20e9, multiplyAddsPerSecond: 200e9 }),
    ...options,
  })
  const authorization = `Bearer ${service.apiKey}`
  return {
    url: service.url,
    directory,
    engine,
    logs,
    service,
    post: (path, body, headers = {}) =>
      fetch(service.url + path, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
    get: (path, headers = {}) => fetch(service.url + path, { headers: { authorization, ...headers } }),
    close: async () => {
      await service.close()
      await rm(directory, { recursive: true })
    },
  }
}

/** The JSON body of a response, with the type that the test expects. */
export async function jsonOf<Body = Record<string, unknown>>(response: Response): Promise<Body> {
  return (await response.json()) as Body
}

export async function errorOf(response: Response): Promise<ErrorBody['error']> {
  return (await jsonOf<ErrorBody>(response)).error
}
