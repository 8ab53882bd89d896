import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { statfs } from 'node:fs/promises'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { DATABASE_ENVIRONMENT, DATABASE_OPTIONS } from '../../lib/guarded/memory.ts'
import { withTimeout } from '../../lib/with-timeout.ts'
import { problemOfSocket, socketPath } from './address.ts'
import type { DatabaseProcessMessage } from './database-process.ts'

const PROGRAM = fileURLToPath(new URL('database-process.ts', import.meta.url))
/** Enough for the first start on a machine, which creates a database from nothing. */
const START_TIMEOUT_MS = 120_000
const RETRY_MS = 100
/** PostgreSQL's `wal_segment_size`. */
const SEGMENT_BYTES = 16 * 2 ** 20
/** Time for the last checkpoint. */
const CLOSE_TIMEOUT_MS = 10_000

/** The process of an embedded database does not start. */
export class EmbeddedDatabaseError extends Error {
  override readonly name = 'EmbeddedDatabaseError'
}

/** The embedded database of a folder, in a process that the first user starts and all users share. */
export class EmbeddedDatabase {
  /** The socket at which it speaks PostgreSQL's protocol. */
  readonly path: string
  readonly #directory: string
  readonly #cache: string
  #starting: Promise<void> | null = null
  #child: ChildProcess | null = null

  constructor(directory: string, cache: string) {
    this.path = socketPath(directory)
    this.#directory = directory
    this.#cache = cache
  }

  /** Resolves when a process serves the database. @throws EmbeddedDatabaseError that says why none can. */
  ensure(): Promise<void> {
    this.#starting ??= this.#ensure().finally(() => {
      this.#starting = null
    })
    return this.#starting
  }

  async #ensure(): Promise<void> {
    for (const end = performance.now() + START_TIMEOUT_MS; performance.now() < end; await delay(RETRY_MS)) {
      const isOpen = await answers(this.path)
      // After the answer: another user cannot have made the folder in between.
      const problem = problemOfSocket(this.#directory)
      if (problem !== null) throw this.#failure(problem)
      if (isOpen) return
      if ((await this.#start()) === 'ready') return
    }
    throw new EmbeddedDatabaseError(`The database in ${this.#directory} is in use by a process that does not answer`)
  }

  async #start(): Promise<DatabaseProcessMessage['state']> {
    const child = spawn(process.execPath, [...DATABASE_OPTIONS, PROGRAM, this.#directory, this.#cache], {
      // It has a group of its own: Ctrl-C at the terminal is for the server, which still has things to write.
      detached: true,
      env: { ...DATABASE_ENVIRONMENT, ...process.env },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    const ended = once(child, 'exit').then(([code, signal]): DatabaseProcessMessage => {
      if (this.#child === child) this.#child = null
      return { state: 'failed', message: `its process ended (${signal ?? `status ${code}`})` }
    })
    const said = once(child, 'message').then(([message]) => message as DatabaseProcessMessage)
    const message = await Promise.race([said, ended])
    if (message.state === 'failed') {
      throw this.#failure(message.message + ((await this.isDiskFull()) ? '; its disk is full' : ''))
    }
    if (message.state === 'ready') {
      this.#child = child
      child.unref()
      child.channel?.unref()
    }
    return message.state
  }

  #failure(reason: string): EmbeddedDatabaseError {
    return new EmbeddedDatabaseError(`The database in ${this.#directory} does not open: ${reason}`)
  }

  /** Whether its disk has no room for one more segment of its log, without which it ends. */
  async isDiskFull(): Promise<boolean> {
    const disk = await statfs(this.#directory).catch(() => null)
    return disk !== null && disk.bavail * disk.bsize < SEGMENT_BYTES
  }

  /** Call it after the last connection is closed. Waits for the database to shut down, unless others use it. */
  async close(): Promise<void> {
    await this.#starting?.catch(() => {})
    const child = this.#child
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    child.ref()
    const settled = Promise.race([once(child, 'exit'), once(child, 'message')])
    child.send('release', () => {})
    await withTimeout(CLOSE_TIMEOUT_MS, settled, undefined)
    if (child.connected) child.disconnect()
    child.unref()
    this.#child = null
  }
}

async function answers(path: string): Promise<boolean> {
  const socket = connect(path)
  const connected = await once(socket, 'connect').catch(() => null)
  socket.destroy()
  return connected !== null
}
