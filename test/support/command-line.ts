import { type ChildProcess, spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import type { Command } from '../../src/commands/command.ts'
import { forTerminal } from '../../src/commands/for-terminal.ts'

export interface Outcome {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * What a process of a test gets of the environment: none of the developer's settings, but no GPU either. A backend in the
 * cache of the machine would otherwise change what is reported. Code that Node has compiled is kept, from the first module
 * on: Node strips the types of those that it loads before the command itself says so, which takes as long as the rest.
 */
export const bareEnvironment = () => ({
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  LOOKOUT_BACKEND: process.env.LOOKOUT_BACKEND,
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
})

/** Starts `lookout` as a user would. */
export function startLookout(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): ChildProcess {
  const env = { ...bareEnvironment(), ...environment }
  return spawn(process.execPath, ['src/main.ts', ...args], { env, stdio: ['pipe', 'pipe', 'pipe'] })
}

/** @param input standard input. */
export async function outcomeOf(child: ChildProcess, input: string | Uint8Array = ''): Promise<Outcome> {
  child.stdin!.on('error', () => {}).end(input)
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const [stdout, stderr, code] = await Promise.all([text(child.stdout!), text(child.stderr!), exited])
  return { code, stdout, stderr }
}

const STOPS = ['SIGINT', 'SIGTERM'] as const

/**
 * What a command prints and how it ends, run in this process: a process of its own takes ten times as long. For cases that
 * are about what the command does with its arguments; others show that the program prints the same. One at a time.
 */
export async function outcomeHere(
  command: Command,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  const { env, stdout, stderr, exitCode } = process
  const printed = { stdout: '', stderr: '' }
  const listening = STOPS.map((name) => [name, process.listeners(name)] as const)
  const writes = { stdout: stdout.write, stderr: stderr.write }
  process.env = { ...bareEnvironment(), ...environment }
  for (const name of ['stdout', 'stderr'] as const) {
    process[name].write = (data: string | Uint8Array) => {
      printed[name] += typeof data === 'string' ? data : Buffer.from(data).toString()
      return true
    }
  }
  try {
    process.exitCode = undefined
    await command.run(args)
    return { code: Number(process.exitCode ?? 0), ...printed }
  } catch (error) {
    return { code: 1, ...printed, stderr: `${printed.stderr}lookout: ${forTerminal((error as Error).message)}\n` }
  } finally {
    process.env = env
    process.exitCode = exitCode
    stdout.write = writes.stdout
    stderr.write = writes.stderr
    // A command of its own process never stops to listen.
    for (const [name, before] of listening) {
      for (const listener of process.listeners(name)) if (!before.includes(listener)) process.off(name, listener)
    }
  }
}
