import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chown, glob, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from './free-port.ts'

const run = promisify(execFile)
/** PostgreSQL refuses to run as root; the tests then run it as `nobody`. */
const USER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
/** Where distributions install PostgreSQL's server programs, which may not be on PATH. */
const FOLDERS = ['/usr/lib/postgresql/*/bin', '/opt/homebrew/opt/postgresql*/bin', '/usr/local/bin', '/usr/bin']

/**
 * A PostgreSQL server for one test, made with the machine's programs. It can be stopped, started, halted and resumed.
 */
export class OwnPostgres {
  readonly url: string
  readonly #programs: string
  readonly #directory: string
  readonly #port: number

  private constructor(programs: string, directory: string, port: number) {
    this.#programs = programs
    this.#directory = directory
    this.#port = port
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`
  }

  /** Finds the folder of PostgreSQL's programs; null when they are not installed. */
  static async find(): Promise<string | null> {
    const given = process.env.LOOKOUT_TEST_POSTGRES_BIN
    for (const folder of given === undefined ? FOLDERS : [given]) {
      const found: string[] = []
      for await (const path of glob(join(folder, 'initdb'))) found.push(path)
      if (found.length > 0) return join(found.sort().at(-1)!, '..')
    }
    return null
  }

  static async start(programs: string): Promise<OwnPostgres> {
    const directory = await mkdtemp(join(tmpdir(), 'lookout-postgres-'))
    if (USER.uid !== undefined) await chown(directory, USER.uid, USER.gid)
    const data = join(directory, 'data')
    const options = ['-D', data, '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale=C', '--no-sync']
    await run(join(programs, 'initdb'), options, USER)
    const postgres = new OwnPostgres(programs, directory, await freePort())
    await postgres.start()
    return postgres
  }

  async start(): Promise<void> {
    // Acknowledged data survives a stop without fsync, as long as the machine keeps running.
    const settings = `-p ${this.#port} -k ${this.#directory} -c listen_addresses=127.0.0.1 -c fsync=off`
    await this.#control('start', '-w', '-l', join(this.#directory, 'log'), '-o', settings)
  }

  /** Stops at once, as after a power failure: connections break at any point. */
  async stop(): Promise<void> {
    await this.#control('stop', '-m', 'immediate')
  }

  /** Suspends its processes. Its connections stay open. */
  async halt(): Promise<void> {
    for (const pid of await this.#processes()) signal(pid, 'SIGSTOP')
  }

  async resume(): Promise<void> {
    for (const pid of await this.#processes()) signal(pid, 'SIGCONT')
  }

  async remove(): Promise<void> {
    await this.resume()
    await this.stop()
    await rm(this.#directory, { recursive: true, force: true })
  }

  async #control(...args: readonly string[]): Promise<void> {
    // Wait for "exit": the server inherits the pipe, so "close" would come only when it ends.
    const child = execFile(join(this.#programs, 'pg_ctl'), ['-s', '-D', join(this.#directory, 'data'), ...args], USER)
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`pg_ctl ${args[0]} ended with status ${code}`)
  }

  /** Linux only. The first process accepts connections, so it must be suspended first; the others are its children. */
  async #processes(): Promise<number[]> {
    const pid = Number((await readFile(join(this.#directory, 'data', 'postmaster.pid'), 'utf8')).split('\n')[0])
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
    return [pid, ...children.trim().split(' ').filter(Boolean).map(Number)]
  }
}

/** A process of PostgreSQL's may have ended since it was listed. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
