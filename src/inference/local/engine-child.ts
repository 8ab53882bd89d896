import { type ChildProcess, fork } from 'node:child_process'
import { createInterface } from 'node:readline'
import { MAPPED_BLOCKS, YOUNG_HEAP_LIMIT } from '../../garbage.ts'
import type { FromEngine, ToEngine } from './protocol.ts'

export interface EngineChildEvents {
  message(message: FromEngine): void
  /** The process is gone; `reason` says how, with the last lines of its log. Called once, and not after `close`. */
  exit(reason: string): void
  log(line: string): void
}

const PROCESS_FILE = new URL('./engine-process.ts', import.meta.url)
/** Time to end by itself before SIGKILL, in ms. */
const TERMINATION_MS = 2000
const KEPT_LOG_LINES = 20

/** One engine process, from its start to its end. */
export class EngineChild {
  readonly #process: ChildProcess
  readonly #events: EngineChildEvents
  readonly #logLines: string[] = []
  readonly #exited: Promise<void>
  /** A process that ends at once leaves none behind that is in the middle of a long call. */
  readonly #killAtExit = () => void this.#process.kill('SIGKILL')
  #closing = false

  constructor(events: EngineChildEvents) {
    this.#events = events
    this.#process = fork(PROCESS_FILE, [], {
      // Typed arrays cross as they are.
      serialization: 'advanced',
      execArgv: [...YOUNG_HEAP_LIMIT],
      env: { ...MAPPED_BLOCKS, ...process.env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    createInterface({ input: this.#process.stderr! }).on('line', (line) => this.#keepLog(line))
    this.#process.on('message', (message) => {
      if (!this.#closing) events.message(message as FromEngine)
    })
    // "close" comes after the last line of the log; "error" alone when the process could not start.
    this.#exited = new Promise((resolve) => {
      process.once('exit', this.#killAtExit)
      const ended = (how: string) => {
        process.off('exit', this.#killAtExit)
        resolve()
        if (this.#closing) return
        this.#closing = true
        events.exit([`The engine process ended (${how}).`, ...this.#logLines].join('\n'))
      }
      this.#process.once('close', (code, signal) => ended(signal ?? `exit code ${code}`))
      this.#process.once('error', (error) => ended(error.message))
    })
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  send(message: ToEngine): void {
    // A message to a process that just ended is lost; "exit" tells whoever waits for an answer.
    if (this.#process.connected) this.#process.send(message, () => {})
  }

  /** Ends a process that hangs; `exit` follows. */
  kill(): void {
    this.#process.kill('SIGKILL')
  }

  /** Ends the process for sure. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      // Signals other than SIGKILL it leaves alone.
      this.send({ type: 'close' })
      const timer = setTimeout(() => this.#process.kill('SIGKILL'), TERMINATION_MS)
      await this.#exited
      clearTimeout(timer)
    }
  }

  #keepLog(line: string): void {
    if (line.trim() === '') return
    this.#logLines.push(line)
    if (this.#logLines.length > KEPT_LOG_LINES) this.#logLines.shift()
    this.#events.log(line)
  }
}
