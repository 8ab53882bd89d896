/** As many items as a body may hold, at each field of each operation: how long the event loop is held. */
import { openApiDocument } from '../src/api/openapi.ts'
import { FloodBodies, type Flooded } from '../test/support/flood/bodies.ts'
import { FloodedServer } from '../test/support/flood/server.ts'
import type { OpenApi } from '../test/support/openapi.ts'
import { table } from './support/table.ts'

const CHAT = '/v1/chat/completions'
const CALL = '{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}'
/** What `--quick` leaves out. */
const QUICK_STEP = 20
const REPEATS = 20

/** @param images bodies of 19 MB, which are sent all at once. */
export async function floodFields(model: string, images: readonly Buffer[], quick: boolean): Promise<string> {
  await using server = await FloodedServer.start()
  await using bare = await FloodedServer.startBare()
  const both = [server, bare] as const
  const bodies = new FloodBodies(openApiDocument({ ollama: true }) as unknown as OpenApi, model)
  const places = [calls(model), ...bodies.all()].filter((_, index) => !quick || index % QUICK_STEP === 0)

  /** The longest that each event loop kept others waiting. */
  const lags = async (path: string, sent: readonly (string | Buffer)[]) => {
    const found: number[] = []
    for (const each of both) {
      await each.lagMs()
      await Promise.all(sent.map((body) => each.send(path, body)))
      found.push(await each.lagMs())
    }
    return found as [ours: number, bare: number]
  }
  const cpu = async (path: string, body: string) => {
    const before = await server.cpuMs()
    const { status } = await server.send(path, body)
    return { ms: (await server.cpuMs()) - before, status }
  }
  const rowOf = (name: string, [ours, trivial]: [number, number], cells: readonly string[]) => {
    return [name, ours.toFixed(), trivial.toFixed(), Math.max(0, ours - trivial).toFixed(), ...cells]
  }

  const rows: string[][] = []
  for (const { operation, field, path, most, body } of places) {
    const whole = body(most)
    const half = await cpu(path, body(most >> 1))
    const full = await cpu(path, whole)
    const cells = [half.ms.toFixed(), full.ms.toFixed(), String(full.status)]
    rows.push(rowOf(`${operation}, ${most} x ${field}`, await lags(path, [whole]), cells))
  }
  rows.push(rowOf(`${images.length} images of 19 MB at once`, await lags(CHAT, images), ['', '', '']))

  const growth: string[][] = []
  for (const [operation, [place]] of Map.groupBy(places, (place) => place.operation)) {
    const body = place!.body(Math.min(place!.most, 5_000))
    await server.send(place!.path, body)
    const before = await server.heapBytes()
    for (let repeat = 0; repeat < REPEATS; repeat++) await server.send(place!.path, body)
    growth.push([operation, (((await server.heapBytes()) - before) / 1e6).toFixed(1)])
  }
  const lag = ['lag, ms', 'of a bare server, ms', 'above it, ms']
  return `### As many items as a body may hold

The bare server only receives. CPU time is that of the event loop's thread, for half as many items and for all.

${table(['operation, items, field', ...lag, 'CPU of half, ms', 'CPU, ms', 'status'], rows)}
${table([`${REPEATS} repeats of`, 'heap growth, MB'], growth)}`
}

/** Calls in a row, each of which once copied those before it. */
function calls(model: string): Flooded {
  const body = (items: number) => `{"model":"${model}","input":[${Array(items).fill(CALL).join()}]}`
  return { operation: 'POST /v1/responses', path: '/v1/responses', field: 'calls', most: 20_000, allowed: 1024, body }
}
