/**
 * Simulates Lookout in front of a cluster of vLLM replicas, at one and at a hundred million requests a day, and prints
 * what it takes and what it costs. The same seed prints the same figures.
 *
 * Usage: npm run simulate [-- --seed N]
 */
import { parseArgs } from 'node:util'
import { print } from '../support/benchmark.ts'
import { percentile } from '../support/statistics.ts'
import { table } from '../support/table.ts'
import { BYTES, FRONT_END, LIMITS, PRICES } from './constants.ts'
import { ROUTERS, type RouterName } from './router.ts'
import { type Outcome, type Scenario, simulate } from './simulation.ts'
import { dailyCurve, PEAK_HOUR } from './workload.ts'

const DAY_SECONDS = 86_400
const DAYS = [1e6, 1e8]
/** Ninety-nine of a hundred requests must have their first token within this time. */
const GOAL_MS = 1000
const ROUTER_NAMES = Object.keys(ROUTERS) as RouterName[]

const { values } = parseArgs({ options: { seed: { type: 'string', default: '1' } } })
const seed = Number(values.seed)
if (!Number.isInteger(seed)) throw new Error(`Expected --seed to be an integer, got "${values.seed}".`)

/** Requests per second of one replica, to begin the search with. */
const FIRST_GUESS = 12
const LATENCIES = ['first token p50, ms', 'p99, ms', 'whole reply p50, s', 'p99, s']
const PLAN_HEADINGS = [
  ...['routing', 'replicas (GPUs) for the peak', 'GPU hours if scaled by the hour', 'Lookout processes', ...LATENCIES],
  ...['$ a day, scaled', '$ for 1,000 requests'],
]

interface Plan {
  readonly replicas: number
  readonly frontEnds: number
  readonly outcome: Outcome
}

/** The fewest replicas that reach the goal at the peak. */
function planFor(router: RouterName, requestsPerSecond: number): Plan {
  const { frontEnds } = frontEndsFor(requestsPerSecond)
  const attempt = (replicas: number) => run({ router, replicas, frontEnds, requestsPerSecond })
  let few = 0
  let enough = Math.max(1, Math.ceil(requestsPerSecond / FIRST_GUESS))
  let outcome = attempt(enough)
  while (!reaches(outcome)) {
    few = enough
    enough = Math.ceil(enough * 1.3)
    outcome = attempt(enough)
  }
  // To within two in a hundred: the simulation itself is no more exact.
  while (enough - few > Math.max(1, enough / 50)) {
    const between = Math.floor((few + enough) / 2)
    const tried = attempt(between)
    if (reaches(tried)) [enough, outcome] = [between, tried]
    else few = between
  }
  return { replicas: enough, frontEnds, outcome }
}

/** As many processes as keep their event loops at the load that is meant; and the cores that all their work takes. */
function frontEndsFor(requestsPerSecond: number) {
  const sample = run({ router: 'random', replicas: 4, frontEnds: 4, requestsPerSecond: 20 })
  const pictureMs = sample.picturesPerRequest * (FRONT_END.pictureMs + FRONT_END.pictureElsewhereMs)
  const allMs = FRONT_END.requestMs + pictureMs + sample.tokensPerRequest * FRONT_END.tokenMs
  const loopMs = sample.frontEndBusy * 4 * (1000 / 20)
  return {
    frontEnds: Math.ceil((requestsPerSecond * loopMs) / 1000 / FRONT_END.target),
    cores: Math.ceil((requestsPerSecond * allMs) / 1000 / FRONT_END.target),
  }
}

function run(scenario: Pick<Scenario, 'router' | 'replicas' | 'frontEnds' | 'requestsPerSecond'>): Outcome {
  // Enough requests for a 99th percentile, and enough time for conversations to come back.
  const seconds = Math.max(30, Math.min(300, 10_000 / scenario.requestsPerSecond))
  return simulate({ ...scenario, seed, warmUpSeconds: seconds, seconds })
}

function reaches({ firstMs, unanswered }: Outcome): boolean {
  return unanswered === 0 && percentile(firstMs, 0.99) < GOAL_MS
}

function planRow(router: RouterName, { replicas, frontEnds, outcome }: Plan, perDay: number): string[] {
  const peak = dailyCurve(PEAK_HOUR)
  const { cores } = frontEndsFor((perDay / DAY_SECONDS) * peak)
  let gpuHours = 0
  for (let hour = 0; hour < 24; hour++)
    gpuHours += Math.max(MIN_REPLICAS, Math.ceil((replicas * dailyCurve(hour)) / peak))
  const dollars = gpuHours * PRICES.gpuHour + 24 * cores * PRICES.coreHour
  return [
    router,
    `${replicas}`,
    `${gpuHours}`,
    `${frontEnds} on ${cores} cores`,
    ...latencies(outcome),
    dollars.toFixed(0),
    ((1000 * dollars) / perDay).toFixed(3),
  ]
}

/** One replica may fail. */
const MIN_REPLICAS = 2

function latencies({ firstMs, totalMs }: Outcome): string[] {
  const of = (values: readonly number[], part: number) => (values.length === 0 ? Number.NaN : percentile(values, part))
  return [
    ...[0.5, 0.99].map((part) => of(firstMs, part).toFixed(0)),
    ...[0.5, 0.99].map((part) => (of(totalMs, part) / 1000).toFixed(1)),
  ]
}

/** What breaks first: the load of everything that all front ends share, beside the limit of one machine. */
function loads({ frontEnds, outcome }: Plan, requestsPerSecond: number): string[][] {
  const { tokensPerRequest, picturesPerRequest, encodedPerRequest } = outcome
  const gigabits = (bytes: number) => (8 * bytes * requestsPerSecond) / 1e9
  const row = (name: string, load: number, limit: number, unit: string) => [
    name,
    `${load < 10 ? load.toFixed(2) : load.toFixed(0)} ${unit}`,
    `${limit}`,
    percent(load / limit),
  ]
  const { gigabitsPerMachine: network } = LIMITS
  return [
    row('database, usage rows', requestsPerSecond, LIMITS.databaseRowsPerSecond, 'rows/s'),
    row('database, repeated reads of keys', requestsPerSecond, LIMITS.databaseReadsPerSecond, 'reads/s'),
    row('database, spending of one busy organisation', frontEnds, LIMITS.rowUpdatesPerSecond, 'updates/s'),
    row('Redis, rate limits', requestsPerSecond, LIMITS.redisOperationsPerSecond, 'operations/s'),
    row('load balancer, images in', gigabits(picturesPerRequest * BYTES.pictureIn), network, 'Gbit/s'),
    row(
      'load balancer, replies out',
      gigabits(tokensPerRequest * BYTES.tokenOut + BYTES.responseHead),
      network,
      'Gbit/s',
    ),
    row(
      'network to the replicas, every image sent',
      gigabits(picturesPerRequest * BYTES.pictureToEngine),
      network,
      'Gbit/s',
    ),
    row(
      'network to the replicas, only images that they lack',
      gigabits(encodedPerRequest * BYTES.pictureToEngine),
      network,
      'Gbit/s',
    ),
    row(
      'usage table, growth in a month',
      ((requestsPerSecond / dailyCurve(PEAK_HOUR)) * DAY_SECONDS * 30 * BYTES.usageRow) / 1e9,
      1000,
      'GB',
    ),
  ]
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`
}

for (const perDay of DAYS) {
  const peak = (perDay / DAY_SECONDS) * dailyCurve(PEAK_HOUR)
  const plans = new Map(ROUTER_NAMES.map((router) => [router, planFor(router, peak)]))
  const best = plans.get('rendezvous')!
  print(`### ${(perDay / 1e6).toFixed(0)} million requests a day, ${peak.toFixed(0)} a second at the peak\n`)
  const rows = ROUTER_NAMES.map((router) => planRow(router, plans.get(router)!, perDay))
  print(table(PLAN_HEADINGS, rows))
  const { replicas, frontEnds } = best
  const same = ROUTER_NAMES.map((router) => {
    const outcome = run({ router, replicas, frontEnds, requestsPerSecond: peak })
    return [router, ...latencies(outcome), percent(outcome.cachedShare), outcome.batch.toFixed(0)]
  })
  print(`The same ${replicas} replicas with each way of routing:\n`)
  print(table(['routing', ...LATENCIES, 'prompt tokens cached', 'sequences in a step'], same))
  print(`What the shared parts carry at the peak, with rendezvous routing:\n`)
  print(table(['part', 'load', 'limit of one', 'share'], loads(best, peak)))
}
