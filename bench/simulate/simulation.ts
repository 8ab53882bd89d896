import { FRONT_END, H100_8B } from './constants.ts'
import { Processor } from './processor.ts'
import { Random } from './random.ts'
import { Replica, type ReplicaModel } from './replica.ts'
import { ROUTERS, type RouterName } from './router.ts'
import { Timeline } from './timeline.ts'
import { type Request, Workload } from './workload.ts'

export interface Scenario {
  readonly seed: number
  readonly requestsPerSecond: number
  readonly replicas: number
  readonly frontEnds: number
  readonly router: RouterName
  /** Time before the measurement, in which caches and queues fill, and the measurement, in seconds. */
  readonly warmUpSeconds: number
  readonly seconds: number
  readonly model?: ReplicaModel
}

export interface Outcome {
  /** Times of the requests that arrived during the measurement and were answered, in ms: to the first token, and to the end. */
  readonly firstMs: readonly number[]
  readonly totalMs: readonly number[]
  /** Those that arrived during the measurement and had no answer a minute after its end. */
  readonly unanswered: number
  /** Share of the prompt tokens. */
  readonly cachedShare: number
  /** Sequences in a step, on average. */
  readonly batch: number
  /** Share of the time. */
  readonly frontEndBusy: number
  /** Per request: tokens generated, and pictures that had to be encoded. */
  readonly tokensPerRequest: number
  readonly encodedPerRequest: number
  readonly branchesPerRequest: number
  readonly picturesPerRequest: number
}

const PATIENCE_MS = 60_000

/** Simulates Lookout processes in front of replicas under a steady stream of independent requests. */
export function simulate(scenario: Scenario): Outcome {
  const { seed, requestsPerSecond, warmUpSeconds, seconds, model = H100_8B } = scenario
  const timeline = new Timeline()
  const random = new Random(seed)
  const workload = new Workload(seed + 1)
  const replicas = Array.from({ length: scenario.replicas }, () => new Replica(timeline, model))
  const frontEnds = Array.from({ length: scenario.frontEnds }, () => new Processor(timeline))
  const choose = ROUTERS[scenario.router](replicas, new Random(seed + 2))
  const from = warmUpSeconds * 1000
  const end = from + seconds * 1000
  const firstMs: number[] = []
  const totalMs: number[] = []
  let measured = 0
  let requests = 0
  let tokens = 0
  let branches = 0
  let pictures = 0

  const serve = (request: Request, arrivedAt: number) => {
    const isMeasured = arrivedAt >= from
    if (isMeasured) measured++
    requests++
    branches += request.branches.length
    pictures += request.pictures
    const frontEnd = frontEnds[random.below(frontEnds.length)]!
    frontEnd.work(requestMs(request), () => {
      const replica = choose(request.routingKey)
      let left = request.branches.length
      const send = ({ prompt, replyTokens }: Request['branches'][number], first: () => void) => {
        tokens += replyTokens
        replica.add({
          prompt,
          pictures: request.pictures,
          replyTokens,
          first,
          done() {
            // What the tokens cost, at once and as if all were streamed. Spread over the reply they would be many small jobs.
            frontEnd.work(replyTokens * FRONT_END.tokenMs, () => {
              if (--left === 0 && isMeasured) totalMs.push(timeline.now - arrivedAt)
            })
          },
        })
      }
      const [leading, ...others] = request.branches
      send(leading!, () => {
        if (isMeasured) firstMs.push(timeline.now - arrivedAt)
        for (const branch of others) send(branch, () => {})
      })
    })
  }
  const arrive = () => {
    serve(workload.next(), timeline.now)
    const wait = random.exponential(1000 / requestsPerSecond)
    if (timeline.now + wait < end) timeline.after(wait, arrive)
  }
  timeline.after(0, arrive)
  timeline.run(end)
  const frontEndBusy = sum(frontEnds.map(({ busyMs }) => busyMs)) / end / frontEnds.length
  timeline.run(end + PATIENCE_MS)
  return {
    firstMs,
    totalMs,
    unanswered: measured - totalMs.length,
    cachedShare:
      sum(replicas.map((replica) => replica.cachedTokens)) / sum(replicas.map((replica) => replica.promptTokens)),
    batch: sum(replicas.map(({ stepped }) => stepped)) / sum(replicas.map(({ steps }) => steps)),
    frontEndBusy,
    tokensPerRequest: tokens / requests,
    encodedPerRequest: sum(replicas.map((replica) => replica.encodedPictures)) / requests,
    branchesPerRequest: branches / requests,
    picturesPerRequest: pictures / requests,
  }
}

/** What a request costs the event loop before its work is sent. */
function requestMs({ pictures }: Request): number {
  return FRONT_END.requestMs + pictures * FRONT_END.pictureMs * FRONT_END.eventLoopShare
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
