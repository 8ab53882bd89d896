import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../free-port.ts'

const GUARD = fileURLToPath(new URL('guard.ts', import.meta.url))
const DECISIONS = fileURLToPath(new URL('lookout_decisions.py', import.meta.url))
const START_MS = 300_000
const STOP_MS = 30_000
const POLL_MS = 100
/** Lines of its log that an error shows. */
const SHOWN_LINES = 20
/**
 * Pixels of an image: from one token up to the card's limit. Images come in the size that our server gave them; with the
 * lower limit that the exported model has for still images, the frames of a video would be enlarged.
 */
const AS_IT_IS = { shortest_edge: 32 ** 2, longest_edge: 200 * 32 ** 2 }
/** The name under which the model is served. */
export const MODEL = 'lookout-nano'

export interface VllmInstallation {
  /** The Python that has vLLM. */
  readonly python: string
  /** Folder of the exported model. */
  readonly model: string
}

export interface VllmOptions {
  /** Any free one by default. */
  readonly port?: number
  /** On by default. */
  readonly prefixCaching?: boolean
  readonly apiKey?: string
  /** Sequences that it computes at the same time; 16 by default. */
  readonly maxSequences?: number
  /** Tokens in one sequence at most; 8192 by default. */
  readonly contextTokens?: number
  /** Threads that compute; as many as there are cores by default. */
  readonly threads?: number
  /** Whether it serves `/v1/systemone` for the shipped model. */
  readonly decides?: boolean
  /** Further arguments. */
  readonly args?: readonly string[]
}

/** A vLLM server with the shipped model. It ends with the process that started it. */
export class Vllm implements AsyncDisposable {
  readonly url: string
  /** Id of the process that serves HTTP; the others are in its process group. */
  readonly pid: number
  readonly #guard: ChildProcess
  readonly #folder: string

  private constructor(url: string, pid: number, guard: ChildProcess, folder: string) {
    this.url = url
    this.pid = pid
    this.#guard = guard
    this.#folder = folder
  }

  /**
   * Resolves when it answers.
   * @throws Error with the end of its log.
   */
  static async start({ python, model }: VllmInstallation, options: VllmOptions = {}): Promise<Vllm> {
    const port = options.port ?? (await freePort())
    // The test that exported the model removes its folder in the end.
    const folder = await mkdtemp(join(dirname(model), 'server-'))
    await using log = await open(join(folder, 'log'), 'w')
    const guard = fork(GUARD, [python, ...argumentsOf(model, port, options)], {
      cwd: folder,
      env: environment(folder, options),
      stdio: ['ignore', log.fd, log.fd, 'ipc'],
    })
    // Where the program cannot be run, the guard has ended, and `#answers` says so.
    const [pid] = await Promise.race([once(guard, 'message'), once(guard, 'exit')])
    const server = new Vllm(`http://127.0.0.1:${port}`, pid, guard, folder)
    try {
      await server.#answers()
    } catch (error) {
      const lines = (await server.log()).trimEnd().split('\n').slice(-SHOWN_LINES)
      await server.kill()
      throw new Error(`${(error as Error).message}\n${lines.join('\n')}`)
    }
    return server
  }

  /** What it has printed. */
  log(): Promise<string> {
    return readFile(join(this.#folder, 'log'), 'utf8')
  }

  /** Ends it as an operator does. */
  async stop(): Promise<void> {
    this.resume()
    this.#signal(this.pid, 'SIGTERM')
    const late = setTimeout(() => this.#signal(-this.pid, 'SIGKILL'), STOP_MS)
    await this.#ended()
    clearTimeout(late)
  }

  /** Ends all its processes at once, as when its machine fails. */
  async kill(): Promise<void> {
    this.#signal(-this.pid, 'SIGKILL')
    await this.#ended()
  }

  /** Halts all its processes. Its port still takes connections, without an answer. */
  pause(): void {
    this.#signal(-this.pid, 'SIGSTOP')
  }

  resume(): void {
    this.#signal(-this.pid, 'SIGCONT')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }

  async #answers(): Promise<void> {
    for (const end = performance.now() + START_MS; performance.now() < end; await delay(POLL_MS)) {
      if (this.#hasEnded) throw new Error('vLLM ended while it started:')
      const response = await fetch(`${this.url}/health`).catch(() => null)
      if (response?.ok) return
    }
    throw new Error(`vLLM did not answer within ${START_MS / 1000} s:`)
  }

  get #hasEnded(): boolean {
    return this.#guard.exitCode !== null || this.#guard.signalCode !== null
  }

  async #ended(): Promise<void> {
    if (!this.#hasEnded) await once(this.#guard, 'exit')
  }

  #signal(pid: number, signal: NodeJS.Signals): void {
    // The guard ends with the group, whose number may then be another's.
    if (!this.#hasEnded) process.kill(pid, signal)
  }
}

function argumentsOf(model: string, port: number, options: VllmOptions): string[] {
  const { prefixCaching = true, apiKey, maxSequences = 16, contextTokens = 8192, decides = false, args = [] } = options
  return [
    // Its command `vllm` looks for a package of that name and does not find it.
    ...(decides ? [DECISIONS] : ['-m', 'vllm.entrypoints.openai.api_server']),
    ...['--model', model, '--served-model-name', MODEL],
    ...['--host', '127.0.0.1', '--port', String(port)],
    // As llama.cpp computes: F16 weights, F32 activations.
    ...['--dtype', 'float32', '--max-model-len', String(contextTokens), '--max-num-seqs', String(maxSequences)],
    // Compiling takes longer than the tests.
    '--enforce-eager',
    '--enable-scale-out',
    '--enable-prompt-tokens-details',
    ...['--scheduling-policy', 'priority', '--generation-config', 'vllm'],
    ...['--logprobs-mode', 'raw_logprobs', '--max-logprobs', '64'],
    ...['--limit-mm-per-prompt', JSON.stringify({ image: 256, video: 0 })],
    ...['--mm-processor-kwargs', JSON.stringify({ size: AS_IT_IS })],
    prefixCaching ? '--enable-prefix-caching' : '--no-enable-prefix-caching',
    ...(apiKey === undefined ? [] : ['--api-key', apiKey]),
    ...args,
  ]
}

/** Nothing of who runs the tests, but where programs are; no network, and no reports to vLLM's makers. */
function environment(folder: string, { threads }: VllmOptions): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    HOME: folder,
    VLLM_CPU_KVCACHE_SPACE: '1',
    // Several servers share the processors.
    VLLM_CPU_OMP_THREADS_BIND: 'nobind',
    ...(threads === undefined ? {} : { OMP_NUM_THREADS: String(threads) }),
    OMP_WAIT_POLICY: 'PASSIVE',
    VLLM_NO_USAGE_STATS: '1',
    DO_NOT_TRACK: '1',
    HF_HUB_OFFLINE: '1',
    HF_HUB_DISABLE_TELEMETRY: '1',
  }
}
