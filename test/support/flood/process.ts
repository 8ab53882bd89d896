/** The process of `FloodedServer`. */

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { readConfig } from '../../../src/config/config.ts'
import { collectAllGarbage } from '../../../src/lib/guarded/memory.ts'
import { Service } from '../../../src/service.ts'
import { FakeEngine } from '../fake-engine.ts'
import { CONTEXT_TOKENS } from './server.ts'

const engine = new FakeEngine({ contextTokens: CONTEXT_TOKENS })
const delay = monitorEventLoopDelay({ resolution: 5 })
delay.enable()
const answers: Readonly<Record<string, () => number>> = { cpu: cpuMs, heap: heapBytes, lag: lagMs }
process.on('message', (question) => void process.send!(answers[String(question)]!()))
process.on('disconnect', () => process.exit())
process.send!(process.env.FLOOD_BARE === undefined ? await startService() : await startBare())

async function startService(): Promise<string> {
  // What most schemas allow.
  engine.script = { texts: ['{}'] }
  const service = await Service.start(readConfig(process.env), {
    startEngine: async () => engine,
    logs: { write: () => {} },
  })
  return service.url
}

/** Only receives what it is sent. */
async function startBare(): Promise<string> {
  const server = createServer((request, response) => void request.resume().on('end', () => response.end()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Processor time of this thread alone, which is the event loop's. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** The longest that the event loop kept others waiting since this was asked before. */
function lagMs(): number {
  const { max } = delay
  delay.reset()
  return max / 1e6
}

function heapBytes(): number {
  // The fake engine keeps them for tests to look at.
  for (const records of [engine.works, engine.readWorks, engine.measured, engine.signals, engine.aborts]) {
    records.length = 0
  }
  for (let round = 0; round < 3; round++) collectAllGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
