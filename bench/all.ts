/** The benchmarks whose figures the documentation quotes, one after another, each in a process of its own. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Benchmark, print } from './support/benchmark.ts'
import { warn } from './support/machine.ts'

/** Repetitions are few enough that all of them take less than 40 minutes on two cores. */
const RUNS: readonly (readonly string[])[] = [
  ['first-light'],
  ['multilook', '--model', 'nano', '--repetitions', '3'],
  ['multilook', '--model', 'two-billion', '--quick'],
  ['decisions', '--repetitions', '2'],
  ['decisions-vllm', '--quick'],
  ['throughput', '--model', 'nano', '--repetitions', '5'],
  ['throughput', '--model', 'gemma-270m', '--quick'],
  ['throughput', '--model', 'half-billion', '--quick'],
  ['throughput', '--model', 'two-billion', '--quick'],
  ['conversation', '--model', 'nano', '--repetitions', '3'],
  ['conversation', '--model', 'two-billion', '--repetitions', '1'],
  ['restart', '--model', 'two-billion', '--repetitions', '1'],
  ['engine', '--model', 'nano', '--repetitions', '3'],
  ['engine', '--model', 'gemma-270m', '--model', 'half-billion', '--model', 'two-billion', '--quick'],
  ['attention', '--model', 'nano', '--repetitions', '2'],
  ['sampling', '--model', 'half-billion', '--repetitions', '3'],
  ['speculation', '--model', 'nano', '--quick'],
  ['neighbours', '--quick'],
  ['two-models', '--model', 'gemma-270m'],
  ['fairness', '--model', 'nano', '--quick'],
  ['beside-image', '--model', 'two-billion', '--quick'],
  ['batches', '--model', 'nano', '--repetitions', '2'],
  ['overload', '--model', 'nano', '--quick'],
  ['overhead'],
  ['traces', '--quick'],
  ['front-end', '--quick'],
  ['media', '--quick'],
  ['accounts', '--quick'],
  ['memory', '--quick'],
  ['request-memory', '--quick'],
  ['flood', '--quick'],
  ['studio', '--quick'],
]

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))

export const all: Benchmark = {
  summary: 'the benchmarks that the documentation quotes, in less than 40 minutes on two cores',
  withPeer: true,

  async run() {
    const failed: string[] = []
    for (const args of RUNS) {
      const started = performance.now()
      print(`    npm run bench -- ${args.join(' ')}\n`)
      const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'inherit', 'inherit'] })
      const [code] = (await once(child, 'exit')) as [number | null]
      if (code !== 0) failed.push(args.join(' '))
      warn(`${args.join(' ')}: ${((performance.now() - started) / 1000).toFixed(0)} s`)
      print('')
    }
    if (failed.length > 0) throw new Error(`These benchmarks failed: ${failed.join('; ')}.`)
  },
}
