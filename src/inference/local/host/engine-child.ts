import { type ChildProcess, fork } from 'node:child_process'
import { createInterface } from 'node:readline'
import { endsFirst } from '../../../lib/guarded/limited-process.ts'
import { CHILD_ENVIRONMENT, CHILD_OPTIONS, DEVICE_ENVIRONMENT } from '../../../lib/guarded/memory.ts'
import type { Priority } from '../../contract/priority.ts'
import { toFailure } from '../failure.ts'
import { HeartbeatMonitor, PULSE_FILE, PULSE_LIMIT_MS } from '../heartbeat.ts'
import type { FromEngine, ToEngine } from '../protocol.ts'
import { SharedFile } from '../shared-file.ts'
import { Outbox } from './outbox.ts'

export interface EngineChildEvents {
  message(message: Exclude<FromEngine, { readonly type: 'received' }>): void
  /**
   * The process has ended. `reason` says how, with the last lines of its log; `signal` is null if no signal ended it. Called
   * once, and never after `close`.
   */
  exit(reason: string, signal: NodeJS.Signals | null): void
  log(line: string): void
}

export interface EngineChildOptions extends EngineChildEvents {
  /** Whether it is likely to compute on a device. */
  readonly usesDevice?: boolean
}

const PROCESS_FILE = new URL('../worker/engine-process.ts', import.meta.url)
/** Grace period before SIGKILL, in ms. */
const TERMINATION_MS = 2000
const KEPT_LOG_LINES = 20
/** A frame of a backtrace: a file or nothing, then addresses. A backtrace is longer than the log lines that are kept. */
const FRAME = /^\S*(\(\S*\))?\[0x[0-9a-f]+\]$/

/** One engine process, from its start to its end. */
export class EngineChild {
  readonly #process: ChildProcess
  readonly #events: EngineChildEvents
  readonly #outbox: Outbox
  readonly #logLines: string[] = []
  readonly #exited: Promise<void>
  /** Without this, a child in the middle of a long native call would outlive this process. */
  readonly #killAtExit = () => void this.#process.kill('SIGKILL')
  /** Null until the first pulse arrives. */
  #pulse: HeartbeatMonitor | null = null
  #closing = false

  constructor({ usesDevice = false, ...events }: EngineChildOptions) {
    this.#events = events
    const file = makeFile()
    this.#process = endsFirst(
      fork(PROCESS_FILE, [], {
        // Needed for typed arrays.
        serialization: 'advanced',
        execArgv: [...CHILD_OPTIONS],
        env: { ...CHILD_ENVIRONMENT, ...(usesDevice ? DEVICE_ENVIRONMENT : {}), ...process.env },
        // The last two are `PULSE_FILE` and `SHARED_FILE`.
        stdio: ['ignore', 'ignore', 'pipe', 'ipc', 'pipe', file?.descriptor ?? 'ignore'],
      }),
    )
    this.#outbox = new Outbox(this.#process, file, (id, error) =>
      events.message({ type: 'error', id, error: toFailure(error) }),
    )
    this.#process.stdio[PULSE_FILE]?.on('data', () => this.#keepPulse())
    createInterface({ input: this.#process.stderr! }).on('line', (line) => this.#keepLog(line))
    this.#process.on('message', (message: FromEngine) => {
      if (this.#closing) return
      try {
        if (message.type === 'received') this.#outbox.received()
        else events.message(message)
      } catch (error) {
        // A process that sends unreadable messages is as unusable as a silent one.
        this.#keepLog(`Cannot read a message from the engine process: ${error}`)
        this.kill()
      }
    })
    // "close" follows the last line of the log. If the process cannot start, only "error" is emitted.
    this.#exited = new Promise((resolve) => {
      process.once('exit', this.#killAtExit)
      const ended = (how: string, signal: NodeJS.Signals | null) => {
        process.off('exit', this.#killAtExit)
        this.#pulse?.stop()
        this.#outbox.close()
        resolve()
        if (this.#closing) return
        this.#closing = true
        events.exit([`The engine process ended (${how}).`, ...this.#logLines].join('\n'), signal)
      }
      this.#process.once('close', (code, signal) => ended(signal ?? `exit code ${code}`, signal))
      this.#process.once('error', (error) => ended(error.message, null))
    })
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  /** @param priority of the message's work. */
  send(message: ToEngine, priority?: Priority): void {
    this.#outbox.send(message, priority)
  }

  /** Kills a process that hangs; `exit` follows. */
  kill(): void {
    this.#process.kill('SIGKILL')
  }

  /** Asks the process to end, then kills it. */
  async close(): Promise<void> {
    this.#closing = true
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      // The process ignores signals other than SIGKILL.
      this.send({ type: 'close' })
      const timer = setTimeout(() => this.#process.kill('SIGKILL'), TERMINATION_MS)
      await this.#exited
      clearTimeout(timer)
    }
  }

  /** Kills the process when it is stopped or starved and sends no pulse. */
  #keepPulse(): void {
    this.#pulse ??= new HeartbeatMonitor(PULSE_LIMIT_MS, () => {
      this.#keepLog(`The engine process has not run for ${PULSE_LIMIT_MS} ms; killing it.`)
      this.kill()
    })
    this.#pulse.beat()
  }

  #keepLog(line: string): void {
    if (line.trim() === '') return
    if (!FRAME.test(line)) this.#logLines.push(line)
    if (this.#logLines.length > KEPT_LOG_LINES) this.#logLines.shift()
    this.#events.log(line)
  }
}

/** @returns null when no descriptors are left; the process can start without the file. */
function makeFile(): SharedFile | null {
  try {
    return SharedFile.create()
  } catch {
    return null
  }
}
