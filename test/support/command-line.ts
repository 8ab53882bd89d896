import { type ChildProcess, spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'

export interface Outcome {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * What a process of a test gets of the environment: none of the developer's settings, but no GPU either. A backend in the
 * cache of the machine would otherwise change what is reported.
 */
export const bareEnvironment = () => ({
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  LOOKOUT_BACKEND: process.env.LOOKOUT_BACKEND,
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
