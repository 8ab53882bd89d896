import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cacheDirectory } from '../../src/setup/native-library.mjs'

/** A server in a process of its own, over an engine that answers at once, that can be killed. */
export interface SilentServer {
  readonly child: ChildProcess
  readonly url: string
  /** Null when the environment asks for none. */
  readonly metricsUrl: string | null
  /** What it has written to its log. */
  logged(): string
}

export async function startSilentServer(environment: Record<string, string>): Promise<SilentServer> {
  const child = spawn(process.execPath, ['bench/support/silent-service.ts'], {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      LOOKOUT_PORT: '0',
      LOOKOUT_CACHE_DIR: cacheDirectory(),
      LOOKOUT_RATE_LIMITS: 'off',
      LOOKOUT_LOG_LEVEL: 'warn',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  let logged = ''
  child.stderr!.on('data', (piece: Buffer) => {
    logged += piece
  })
  const listens = new Promise<string>((resolve) => {
    child.stdout!.on('data', (piece: Buffer) => {
      said += piece
      const address = /listens on (\S+)/.exec(said)?.[1]
      if (address !== undefined) resolve(address)
    })
  })
  const ended = once(child, 'exit').then(() => {
    throw new Error(`The server did not start: ${logged}`)
  })
  // It ends one day.
  ended.catch(() => {})
  const url = await Promise.race([listens, ended])
  const metrics = /metrics at (\S+)/.exec(said)?.[1] ?? 'null'
  return { child, url, metricsUrl: metrics === 'null' ? null : metrics, logged: () => logged }
}
