import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cacheDirectory } from '../../src/setup/native-library.mjs'
import { bareEnvironment } from './command-line.ts'

/** A server in its own process, which a test can kill, with an engine that replies at once. */
export interface SilentServer {
  readonly child: ChildProcess
  readonly url: string
  /** Null when the environment does not enable metrics. */
  readonly metricsUrl: string | null
  /** Everything it has logged so far. */
  logged(): string
}

export async function startSilentServer(environment: Record<string, string>): Promise<SilentServer> {
  const child = spawn(process.execPath, ['bench/support/silent-service.ts'], {
    env: {
      ...bareEnvironment(),
      LOOKOUT_PORT: '0',
      LOOKOUT_CACHE_DIR: cacheDirectory(),
      LOOKOUT_RATE_LIMITS: 'off',
      LOOKOUT_LOG_LEVEL: 'warn',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  let logged = ''
  child.stderr!.on('data', (piece: Buffer) => {
    logged += piece
  })
  const listening = new Promise<string>((resolve) => {
    child.stdout!.on('data', (piece: Buffer) => {
      output += piece
      const address = /listens on (\S+)/.exec(output)?.[1]
      if (address !== undefined) resolve(address)
    })
  })
  const ended = once(child, 'exit').then(() => {
    throw new Error(`The server did not start: ${logged}`)
  })
  // The server also exits when the test ends it.
  ended.catch(() => {})
  const url = await Promise.race([listening, ended])
  const metrics = /metrics at (\S+)/.exec(output)?.[1] ?? 'null'
  return { child, url, metricsUrl: metrics === 'null' ? null : metrics, logged: () => logged }
}
