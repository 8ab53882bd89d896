import type { ChildProcess } from 'node:child_process'
import { type LimitedProcess, spawnLimited } from '../../lib/guarded/limited-process.ts'
import { CHILD_ENVIRONMENT } from '../../lib/guarded/memory.ts'
import { forbidRings } from './seccomp.ts'

/** An argument: the process is to confine itself before it parses anything. */
const CONFINED = '--confined'

export interface ConfinedProcess extends Omit<LimitedProcess, 'environment'> {
  readonly isConfined: boolean
}

/**
 * Starts a process that parses untrusted bytes, without the server's environment, which may hold keys, and with a memory
 * limit where the shell can set one. It knows where compiled code is kept. An allocation beyond the limit fails, and with
 * it the input.
 */
export function spawnConfined({ args = [], isConfined, ...options }: ConfinedProcess): ChildProcess {
  if (isConfined) forbidRings()
  return spawnLimited({
    ...options,
    args: [...(isConfined ? [CONFINED] : []), ...args],
    environment: { ...CHILD_ENVIRONMENT },
  })
}

/** Whether this process was started to confine itself. */
export function isToBeConfined(): boolean {
  return process.argv.includes(CONFINED)
}

/** Makes this process end when its parent ends or wants it to, and only then. */
export function endWithParent(): void {
  // A regular exit would wait for the threads of native decoders.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  // Ctrl-C in a terminal and a service manager's SIGTERM reach the whole process group. The parent ends this process.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
}
