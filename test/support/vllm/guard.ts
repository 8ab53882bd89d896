/**
 * Runs a program in a process group of its own, and ends all of the group when the process that started this one has ended,
 * also by a crash: no vLLM is left behind.
 */
import { spawn } from 'node:child_process'

const [program, ...args] = process.argv.slice(2)
const child = spawn(program!, args, { detached: true, stdio: ['ignore', 'inherit', 'inherit'] })

function endGroup(): void {
  try {
    process.kill(-child.pid!, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.once('disconnect', endGroup)
child.once('spawn', () => process.send!(child.pid))
child.once('exit', () => {
  endGroup()
  process.exit()
})
