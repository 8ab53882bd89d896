import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { changedCard, type TemporaryCard } from '../changed-card.ts'

const KEY = 'test-key'
/** As many as the longest contexts of the field have: few bodies are too long for it. */
export const CONTEXT_TOKENS = 2 ** 20

export interface FloodAnswer {
  readonly status: number
  readonly text: string
}

/** A server with a fake engine in a process of its own, so that what its event loop does can be measured. */
export class FloodedServer implements AsyncDisposable {
  readonly url: string
  readonly #process: ChildProcess
  readonly #agent = new Agent({ keepAlive: true })
  readonly #resources: AsyncDisposableStack

  private constructor(url: string, process: ChildProcess, resources: AsyncDisposableStack) {
    this.url = url
    this.#process = process
    this.#resources = resources
  }

  /** A server that receives the same bodies and does nothing else, to compare with. */
  static startBare(): Promise<FloodedServer> {
    return FloodedServer.start({ FLOOD_BARE: '1' })
  }

  static async start(environment: Readonly<Record<string, string>> = {}): Promise<FloodedServer> {
    await using starting = new AsyncDisposableStack()
    const directory = await mkdtemp(join(tmpdir(), 'lookout-flood-'))
    starting.defer(() => rm(directory, { recursive: true, force: true }))
    const card: TemporaryCard = await changedCard(({ engine, serves, ...card }) => ({
      ...card,
      engine: { ...engine, contextTokens: CONTEXT_TOKENS },
      serves: serves.map((served) => ({ ...served, maxContextTokens: CONTEXT_TOKENS })),
    }))
    starting.defer(() => card.remove())
    const env = {
      ...process.env,
      LOOKOUT_PORT: '0',
      LOOKOUT_API_KEY: KEY,
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_MODEL_CARD: card.path,
      LOOKOUT_RATE_LIMITS: 'off',
      LOOKOUT_BATCH_LINES: '0',
      LOOKOUT_OLLAMA: 'on',
      ...environment,
    }
    const child = fork(new URL('./process.ts', import.meta.url), [], { env })
    starting.defer(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    })
    const [url] = await once(child, 'message', { signal: exitSignal(child) })
    return new FloodedServer(url as string, child, starting.move())
  }

  /** CPU time that the thread of the event loop has used, in milliseconds. */
  cpuMs(): Promise<number> {
    return this.#ask('cpu')
  }

  /** What lives in the heap, and outside of it, after all garbage has been collected. */
  heapBytes(): Promise<number> {
    return this.#ask('heap')
  }

  /** The longest that the event loop kept others waiting since this was asked before. */
  lagMs(): Promise<number> {
    return this.#ask('lag')
  }

  async #ask(question: 'cpu' | 'heap' | 'lag'): Promise<number> {
    this.#process.send(question)
    const [answer] = await once(this.#process, 'message', { signal: exitSignal(this.#process) })
    return answer as number
  }

  /** @throws Error when no answer comes. */
  async send(
    path: string,
    body: string | Buffer | null,
    { method = 'POST', type = 'application/json', headers = {} }: SendOptions = {},
  ): Promise<FloodAnswer> {
    const bytes = body === null ? null : Buffer.from(body)
    const sending = request(this.url + path, {
      method,
      agent: this.#agent,
      timeout: 60_000,
      headers: {
        authorization: `Bearer ${KEY}`,
        ...(bytes === null ? {} : { 'content-type': type, 'content-length': bytes.length }),
        ...headers,
      },
    })
    sending.on('timeout', () => sending.destroy(new Error(`No answer to ${method} ${path}`)))
    sending.end(bytes)
    const [response] = (await once(sending, 'response')) as [IncomingMessage]
    const pieces: Buffer[] = []
    for await (const piece of response) pieces.push(piece)
    return { status: response.statusCode!, text: Buffer.concat(pieces).toString() }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy()
    await this.#resources.disposeAsync()
  }
}

interface SendOptions {
  readonly method?: string
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Ends waiting for a message that a process that has ended will not send. */
function exitSignal(child: ChildProcess): AbortSignal {
  const ended = new AbortController()
  child.setMaxListeners(0).once('exit', (code, signal) => ended.abort(new Error(`The server ended: ${signal ?? code}`)))
  return ended.signal
}
