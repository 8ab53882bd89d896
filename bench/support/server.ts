import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { BenchModel } from './models.ts'
import type { Peer } from './peer-build.ts'

/** A server under measurement, in a process of its own. */
export interface BenchServer extends AsyncDisposable {
  readonly name: string
  readonly url: string
  readonly apiKey: string
  /** Name of the model in requests. */
  readonly model: string
  readonly pid: number
  /** Time from the start of the process until it is ready. */
  readonly readyMs: number
}

const KEY = 'lk-bench'
const START_TIMEOUT_MS = 120_000
/** The service over an engine that answers at once. */
export const SILENT_SERVICE = fileURLToPath(new URL('silent-service.ts', import.meta.url))
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/**
 * Starts Lookout from the command line.
 * @param cardFile null for the shipped model.
 * @param options.directory data directory that stays when the server has ended; one for this server alone by default.
 */
export async function startLookout(
  cardFile: string | null,
  model: string,
  {
    name = 'Lookout',
    program = MAIN,
    nodeOptions = [] as readonly string[],
    environment = {} as Readonly<Record<string, string>>,
    directory = null as string | null,
  } = {},
): Promise<BenchServer & { readonly directory: string }> {
  const data = directory ?? (await mkdtemp(join(tmpdir(), 'lookout-bench-')))
  const tidy = async () => (directory === null ? rm(data, { recursive: true, force: true }) : undefined)
  const started = performance.now()
  const child = spawn(process.execPath, [...nodeOptions, program, 'serve'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      LOOKOUT_PORT: '0',
      LOOKOUT_API_KEY: KEY,
      LOOKOUT_DATA_DIR: data,
      LOOKOUT_LOG_LEVEL: 'warn',
      LOOKOUT_RATE_LIMITS: 'off',
      // As llama-server, it waits for a large model on a slow machine.
      LOOKOUT_CHAT_SECONDS: '86400',
      ...environment,
      ...(cardFile === null ? {} : { LOOKOUT_MODEL_CARD: cardFile }),
    },
  })
  const url = await addressIn(child)
  if (url !== null) {
    const readyMs = performance.now() - started
    return {
      ...server(name, child, url, model, readyMs, tidy),
      directory: data,
    }
  }
  throw new Error(`${name} did not start.`)
}

/** The URL that a server prints to standard output; null when it exits without one. */
function addressIn(child: ChildProcess): Promise<string | null> {
  return new Promise((resolve) => {
    let text = ''
    child.stdout!.on('data', (piece: Buffer) => {
      text += piece
      const url = /listens on (\S+)/.exec(text)?.[1]
      if (url !== undefined) resolve(url)
    })
    child.on('exit', () => resolve(null))
  })
}

export interface PeerOptions {
  readonly slots: number
  readonly threads: number
  /** Tokens of context for all slots together, as in Lookout's card. */
  readonly contextTokens: number
  /** One KV cache for all slots. By default, llama-server splits it into one part per slot. */
  readonly unified?: boolean
  /** Further arguments of its command line, and variables of its environment. */
  readonly arguments?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
}

/** Starts `llama-server` with its defaults, except for `options`. Its log goes to a file in the temporary folder. */
export async function startPeer(peer: Peer, model: BenchModel, options: PeerOptions): Promise<BenchServer> {
  const port = await freePort()
  const { image } = model.card
  const started = performance.now()
  const child = spawn(
    peer.server,
    [
      ...['--model', model.model, '--alias', model.id, '--host', '127.0.0.1', '--port', String(port)],
      ...['--api-key', KEY, '--parallel', String(options.slots), '--ctx-size', String(options.contextTokens)],
      ...['--threads', String(options.threads), '--threads-batch', String(options.threads), '--jinja'],
      ...(options.unified ? ['--kv-unified'] : ['--no-kv-unified']),
      ...(model.projector === null ? [] : ['--mmproj', model.projector]),
      // Where the library cuts images into tiles, limits would make it cut them in another way.
      ...(image && !image.tiles
        ? ['--image-min-tokens', String(image.minTokens), '--image-max-tokens', String(image.maxTokens)]
        : []),
      '--no-ui',
      ...(options.arguments ?? []),
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...options.environment } },
  )
  const logFile = join(tmpdir(), `lookout-bench-peer-${port}.log`)
  const log = createWriteStream(logFile)
  child.stdout!.pipe(log, { end: false })
  child.stderr!.pipe(log, { end: false })
  const url = `http://127.0.0.1:${port}`
  for (const limit = started + START_TIMEOUT_MS; performance.now() < limit; await delay(50)) {
    if (child.exitCode !== null || child.signalCode !== null) break
    const ready = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
    if (!ready) continue
    return server('llama-server', child, url, model.id, performance.now() - started, async () => {
      log.end()
      await rm(logFile, { force: true })
    })
  }
  child.kill('SIGKILL')
  throw new Error(`llama-server did not start. See its log in ${logFile}.`)
}

function server(
  name: string,
  child: ChildProcess,
  url: string,
  model: string,
  readyMs: number,
  tidy: () => Promise<void>,
): BenchServer {
  // An interrupted benchmark leaves no server behind.
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  return {
    name,
    url,
    apiKey: KEY,
    model,
    pid: child.pid!,
    readyMs,
    async [Symbol.asyncDispose]() {
      process.off('exit', kill)
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM')
        await once(child, 'exit')
      }
      await tidy()
    },
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}
