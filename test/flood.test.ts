import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openApiDocument } from '../src/api/openapi.ts'
import { FloodBodies, type Flooded } from './support/flood/bodies.ts'
import { FloodedServer } from './support/flood/server.ts'
import type { OpenApi } from './support/openapi.ts'

const MODEL = 'service-mk1.5'
/** What costs less is not compared: it is noise, and no other request waits for long. */
const FLOOR_MS = 100
/** Twice as many take twice the time, and more where memory is collected more often; by the square, four times. */
const MOST_GROWTH = 3
const TRIES = 6
const REPEATS = 20
const MOST_HEAP_BYTES = 5e6
/** Each has a server of its own. Only CPU time counts, so that they may share the machine. */
const LANES = 2
const WALK_MS = 1_800_000

const document = openApiDocument({ ollama: true }) as unknown as OpenApi
const places = [...new FloodBodies(document, MODEL).all()]

type Place = Pick<Flooded, 'path' | 'field' | 'most' | 'body'> & { readonly type?: string }

const servers: FloodedServer[] = []
let server: FloodedServer
beforeAll(async () => {
  for (let lane = 0; lane < LANES; lane++)
    servers.push(await FloodedServer.start({ DATABASE_URL: inject('databaseUrl') }))
  server = servers[0]!
})
afterAll(() => Promise.all(servers.map((server) => server[Symbol.asyncDispose]())))

/** CPU time of the event loop for one request. @throws Error without an answer, and for one that blames the server. */
async function costOf({ path, type }: Place, body: string, server = servers[0]!): Promise<number> {
  const before = await server.cpuMs()
  const { status, text } = await server.send(path, body, { type: type ?? 'application/json' })
  // What the fake engine replies follows no schema that only some texts follow.
  if (status >= 500 && !text.includes('output_validation_failed')) throw new Error(`${status}: ${text.slice(0, 500)}`)
  return (await server.cpuMs()) - before
}

/** Garbage of earlier requests is collected at the expense of one that happens to come then, so that the least counts. */
async function growthProblem(place: Place, items: number, server: FloodedServer): Promise<string | null> {
  let [whole, half] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  const body = place.body(items)
  for (let attempt = 0; attempt < TRIES; attempt++) {
    whole = Math.min(whole, await costOf(place, body, server))
    if (whole <= FLOOR_MS) return null
    half = Math.min(half, await costOf(place, place.body(items / 2), server))
    if (whole <= MOST_GROWTH * half) return null
  }
  return `${place.path}, ${place.field}: ${items} items take ${whole.toFixed()} ms, half as many ${half.toFixed()} ms`
}

test(
  'as many items as a body can hold, at each list, map and text of each operation, take the event loop linear time',
  async () => {
    expect(places.length).toBeGreaterThan(300)
    const problems: string[] = []
    const next = places.values()
    const walk = async (server: FloodedServer) => {
      for (const place of next) {
        const allowed = Math.min(place.allowed, place.most)
        // More than are allowed are refused alike, of all kinds.
        for (const items of place.field.endsWith(' of all kinds') ? new Set([allowed, place.most]) : [allowed]) {
          const problem = await growthProblem(place, items - (items % 2), server).catch((error: Error) => {
            return `${place.path}, ${place.field}, ${items} items: ${error.message}`
          })
          if (problem !== null) problems.push(problem)
        }
      }
    }
    await Promise.all(servers.map(walk))
    expect(problems).toEqual([])
  },
  WALK_MS,
)

const repeated = (item: string, count: number) => Array(count).fill(item).join()
const numbered = (count: number, item: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => item(at)).join()

function form(items: number): string {
  const part = (at: number) => `--b\r\ncontent-disposition: form-data; name="p${at}"\r\n\r\n1\r\n`
  return `${Array.from({ length: items }, (_, at) => part(at)).join('')}--b--\r\n`
}

const FORM = { field: 'parts of a form', most: 200_000, type: 'multipart/form-data; boundary=b', body: form }

/** What schemas do not show. */
const SHAPES: readonly Place[] = [
  { ...FORM, path: '/v1/files' },
  { ...FORM, path: '/v1/systemone' },
  {
    path: '/v1/responses',
    field: 'calls of one turn, all with one id',
    most: 40_000,
    body: (items) => {
      const call = '{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}'
      return `{"model":"${MODEL}","input":[${repeated(call, items)}]}`
    },
  },
  {
    path: '/api/chat',
    field: 'results that answer the last of many calls',
    most: 30_000,
    body: (items) => {
      const turn = repeated('{"function":{"name":"f","arguments":{}}}', 1_000)
      const calls = repeated(`{"role":"assistant","tool_calls":[${turn}]}`, Math.ceil(items / 1_000))
      const results = numbered(items, (at) => `{"role":"tool","content":"a","tool_call_id":"call_${items - at}"}`)
      return `{"model":"${MODEL}","stream":false,"messages":[${calls},${results}]}`
    },
  },
  {
    path: '/v1/systemone',
    field: 'a text that is almost a placeholder at each of its places',
    most: 10 * 2 ** 20,
    body: (items) => {
      const assets = numbered(255, (at) => `"${'a'.repeat(60)}${at}":{"data_base64":"AAAA"}`)
      const questions = '{"q":{"type":"noul","instructions":"Is it?"}}'
      return `{"model":"${MODEL}","state":"${'a'.repeat(items)}","questions":${questions},"assets":{${assets}}}`
    },
  },
]

test.each(SHAPES)(
  '$path takes the event loop linear time: $field',
  async (place) => {
    expect(await growthProblem(place, place.most, server)).toBeNull()
  },
  WALK_MS,
)

test(
  'repeats of one request leave nothing in memory',
  async () => {
    const operations = Map.groupBy(places, ({ operation }) => operation)
    for (const [operation, [place]] of operations) {
      const body = place!.body(Math.min(place!.most, 5_000))
      await costOf(place!, body)
      const before = await server.heapBytes()
      for (let repeat = 0; repeat < REPEATS; repeat++) await costOf(place!, body)
      expect((await server.heapBytes()) - before, operation).toBeLessThan(MOST_HEAP_BYTES)
    }
  },
  WALK_MS,
)

test('queries and headers that hold long lists are answered', async () => {
  const many = (item: (at: number) => string, count: number) => Array.from({ length: count }, (_, at) => item(at))
  for (const [path, methods] of Object.entries(document.paths)) {
    if (!('get' in methods)) continue
    const query = many((at) => `limit=${at}&a[]=${at}`, 500).join('&')
    const { status } = await server.send(`${path.replaceAll(/\{\w+\}/g, 'x')}?${query}`, null, {
      method: 'GET',
      headers: { range: `bytes=${many((at) => `${at}-`, 500).join()}`, accept: many(() => 'a/b', 500).join() },
    })
    expect(status, path).toBeLessThan(500)
  }
})
