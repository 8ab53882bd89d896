import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { CHILD_OPTIONS } from './memory.ts'

/**
 * Where Node keeps compiled code, and whether it does. With compiled code, a process starts in a quarter of the
 * processor time.
 */
const COMPILED_CODE = ['NODE_COMPILE_CACHE', 'NODE_DISABLE_COMPILE_CACHE'] as const

export interface LimitedProcess {
  /** A path, or the address of a module. */
  readonly program: string | URL
  readonly args?: readonly string[]
  /** Options of Node. */
  readonly options?: readonly string[]
  /** Its environment, to which the location of compiled code is added. */
  readonly environment: NodeJS.ProcessEnv
  readonly stdio: StdioOptions
  /** Limit on its writable memory, buffers and native libraries included. An allocation beyond it fails. */
  readonly memoryBytes: number
  /** Limit on its processor time, after which the system ends it; none by default. */
  readonly processorSeconds?: number
}

/**
 * Starts a program in a separate process, with limits if the shell can set them. A limit on the heap alone would not
 * suffice: buffers are outside the heap, and a thread that exceeds its limit ends its whole process.
 */
export function spawnLimited({
  program,
  args = [],
  options = [],
  environment,
  stdio,
  ...limits
}: LimitedProcess): ChildProcess {
  const { memoryBytes, processorSeconds } = limits
  const time = processorSeconds === undefined ? '' : `ulimit -t ${processorSeconds} 2>/dev/null; `
  const limited = `ulimit -d ${Math.floor(memoryBytes / 1024)} 2>/dev/null; ${time}exec "$@"`
  const path = program instanceof URL ? fileURLToPath(program) : program
  const command = [process.execPath, ...CHILD_OPTIONS, ...options, path, ...args]
  const env = { ...environment }
  for (const name of COMPILED_CODE) if (process.env[name] !== undefined) env[name] = process.env[name]
  return endsFirst(spawn('/bin/sh', ['-c', limited, 'sh', ...command], { serialization: 'advanced', stdio, env }))
}

/** Thousandths of the memory. Linux kills the server first only if it uses this much more than each child. */
const HANDICAP = 500
const WORST = 1000

/**
 * When memory runs out, Linux kills the process that uses most of it, which may be the server. This makes it kill a child
 * first: only the child's requests fail, and it starts again.
 */
export function endsFirst<Child extends Pick<ChildProcess, 'pid'>>(child: Child): Child {
  try {
    const own = Number(readFileSync('/proc/self/oom_score_adj', 'utf8'))
    writeFileSync(`/proc/${child.pid}/oom_score_adj`, String(Math.min(WORST, own + HANDICAP)))
  } catch {
    // Another system, or the process could not start.
  }
  return child
}
