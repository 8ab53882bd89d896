import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { bareEnvironment, type Outcome } from './command-line.ts'

/**
 * Runs `lookout` again and again in one process, which loads the program once: that takes most of a short command's time.
 * Only for commands that end by themselves, read no standard input and ask a server that runs already.
 */
export class CommandHost implements AsyncDisposable {
  readonly #child: ChildProcess
  #last: Promise<unknown> = Promise.resolve()

  constructor(environment: Readonly<Record<string, string>>) {
    const env = { ...bareEnvironment(), ...environment }
    this.#child = fork(fileURLToPath(import.meta.url), { env, execArgv: [] })
  }

  /** One after the other. */
  run(args: readonly string[]): Promise<Outcome> {
    const outcome = this.#last.then(async () => {
      const settled = new AbortController()
      const event = (name: string) => once(this.#child, name, { signal: settled.signal })
      const end = event('exit').then(() => Promise.reject(new Error(`'lookout ${args.join(' ')}' ended its process`)))
      this.#child.send(args)
      try {
        const [answer] = await Promise.race([event('message'), end])
        return answer as Outcome
      } finally {
        end.catch(() => {})
        settled.abort()
      }
    })
    this.#last = outcome.catch(() => {})
    return outcome
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exit
  }
}

/** What `process.exit` throws here. */
class Exit extends Error {
  readonly code: number

  constructor(code: number) {
    super(`exit ${code}`)
    this.code = code
  }
}

let runs = 0

/** Runs `src/main.ts` as a process of its own does, up to its exit. Modules that it imports stay loaded. */
async function runMain(args: readonly string[]): Promise<Outcome> {
  const main = new URL('../../src/main.ts', import.meta.url)
  main.search = String(++runs)
  const printed = { stdout: '', stderr: '' }
  const { write: toStdout } = process.stdout
  const { write: toStderr } = process.stderr
  const keep = (stream: keyof typeof printed) => (data: string | Uint8Array) => {
    printed[stream] += typeof data === 'string' ? data : Buffer.from(data).toString()
    return true
  }
  process.argv = [process.argv[0]!, fileURLToPath(main), ...args]
  process.exitCode = undefined
  process.stdout.write = keep('stdout')
  process.stderr.write = keep('stderr')
  try {
    await import(main.href)
    return { code: Number(process.exitCode ?? 0), ...printed }
  } catch (error) {
    if (!(error instanceof Exit)) throw error
    return { code: error.code, ...printed }
  } finally {
    process.stdout.write = toStdout
    process.stderr.write = toStderr
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.exit = (code) => {
    throw new Exit(Number(code ?? process.exitCode ?? 0))
  }
  // Each run listens for signals and for the end of its reader.
  for (const emitter of [process, process.stdout, process.stderr]) emitter.setMaxListeners(0)
  process.on('message', async (args: readonly string[]) => process.send!(await runMain(args)))
}
