/** Watches of cameras: processor time and memory of all processes of the server, and the time until an event is stored. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Benchmark, print } from './support/benchmark.ts'
import { CAMERA_FPS, type CameraAddresses, type CameraCounts, type CameraKind } from './support/camera-kinds.ts'
import { shippedModel } from './support/models.ts'
import { processorTicks, proportionalBytes } from './support/process-tree.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, percentile } from './support/statistics.ts'
import { table } from './support/table.ts'
import { Camera } from './support/watch-client.ts'
import { predicates } from './support/watch-questions.ts'

const PROGRAM = fileURLToPath(new URL('support/camera-program.ts', import.meta.url))
const TICKS_PER_SECOND = 100
const QUESTIONS = 4
const MANY: CameraCounts = { moving: 1, still: 24 }
const MEMORY_CAMERAS = 10
/** The rate of the watch whose events are timed. */
const FASTEST = 10
const RED_CIRCLE = {
  name: 'circle',
  type: 'predicate',
  instructions: 'Is there a red circle?',
  event: { above: 0.5, below: 0.4, for_seconds: 0, clear_seconds: 0 },
}
/** For each camera to be looked at. */
const POLL_MS = 100
const MOST_POLLS = 1_200
/** What starts cameras, and ends those before, is not measured. */
const SETTLE_MS = 3_000
/** What is asked of the server, in CPU seconds per second, milliseconds and megabytes. */
const GOALS = { moving: 1, many: 1, stillMs: 25, eventMs: 300, megabytes: 300 }

export const watchCameras: Benchmark = {
  summary: 'watches of cameras: processor time and memory of all processes, and the time until an event is stored',
  withPeer: false,
  run: ({ quick }) => printCameras(quick ? 5 : 60),
}

async function printCameras(seconds: number): Promise<void> {
  const model = await shippedModel()
  await using server = await startLookout(model.cardFile, model.id, {
    // An organisation may have half of them.
    environment: { LOOKOUT_WATCHES: '64', LOOKOUT_CAMERA_HOSTS: '127.0.0.1/32' },
  })
  await using cameras = await CameraProcess.start({ moving: 4, still: 24, flips: 1 })
  const rates = Object.entries(cameras.rates).map(([kind, rate]) => `${kind} ${rate.toFixed(1)}`)
  print(`### Cameras

H.264 of 1920 x 1080 at ${CAMERA_FPS} frames per second over RTSP (Mbit/s: ${rates.join(', ')}), served by another process, which is not counted. Looks once a second with ${QUESTIONS} questions; processor time of all processes of the server over ${seconds} s.
`)
  await printLoads(server, cameras, seconds)
  await printMemory(server, cameras, seconds)
  await printEvents(server, cameras, seconds)
}

async function printLoads(server: BenchServer, cameras: CameraProcess, seconds: number): Promise<void> {
  const all = { questions: predicates(QUESTIONS), fps: 1, motion: null }
  const moved = { questions: predicates(QUESTIONS), fps: 1 }
  const measure = (counts: CameraCounts, settings: object) => loadOf(server, cameras, { counts, settings, seconds })
  const idle = await measure({}, all)
  const rows = [rowOf('none', idle, null)]
  for (const moving of [1, 2, 4]) {
    const load = await measure({ moving }, all)
    rows.push(rowOf(`${moving} moving`, load, moving === 4 ? GOALS.moving : null))
  }
  const still = await measure({ still: 1 }, { ...moved, decode: 'key_frames' })
  rows.push(rowOf('1 still, key frames', still, null))
  rows.push(rowOf(`${MANY.still} still, ${MANY.moving} moving`, await measure(MANY, moved), GOALS.many))
  print(
    table(
      ['cameras', 'CPU s per s', 'of the goal', 'frames fed', 'looks per camera and s', 'frames not looked at'],
      rows,
    ),
  )
  const ms = 1000 * (still.cpu - idle.cpu)
  print(
    `A still camera on key frames, without what an idle server takes: ${ms.toFixed(0)} ms a second, ${ratio(ms, GOALS.stillMs)} of the goal.\n`,
  )
}

interface Load {
  /** CPU seconds per second. */
  readonly cpu: number
  /** The share of the frames that were due from the cameras. */
  readonly fed: number | null
  readonly looks: number | null
  /** Frames dropped for reasons other than `still`. */
  readonly dropped: number
}

interface LoadSpec {
  readonly counts: CameraCounts
  readonly settings: object
  readonly seconds: number
}

async function loadOf(
  server: BenchServer,
  cameras: CameraProcess,
  { counts, settings, seconds }: LoadSpec,
): Promise<Load> {
  const watches = await watchAll(server, cameras.urls(counts), settings)
  await delay(SETTLE_MS)
  const countAll = () => Promise.all(watches.map((watch) => watch.counts()))
  const before = await countAll()
  const [ticks, sent, from] = [await processorTicks(server.pid), await cameras.sent(), performance.now()]
  await delay(1000 * seconds)
  const after = await countAll()
  const lasted = (performance.now() - from) / 1000
  const cpu = ((await processorTicks(server.pid)) - ticks) / TICKS_PER_SECOND / lasted
  const frames = (await cameras.sent()) - sent
  for (const watch of watches) await watch.close()
  const count = watches.length
  const sum = (of: (one: (typeof after)[number]) => number) =>
    after.reduce((total, one, index) => total + of(one) - of(before[index]!), 0)
  return {
    cpu,
    fed: count === 0 ? null : frames / (CAMERA_FPS * count * lasted),
    // One in which nothing has moved counts as a look.
    looks: count === 0 ? null : sum(({ looks, dropped }) => looks + dropped.still) / count / lasted,
    dropped: sum(({ dropped }) => dropped.busy + dropped.late + dropped.rate),
  }
}

/** Makes a watch for each camera, and waits until each has looked. */
export async function watchAll(server: BenchServer, urls: readonly string[], settings: object): Promise<Camera[]> {
  const watches: Camera[] = []
  for (const url of urls) watches.push(await Camera.open(server, { source: { type: 'rtsp', url }, ...settings }))
  for (const watch of watches) {
    for (let polls = 0; (await watch.counts()).looks === 0; polls++) {
      if (polls > MOST_POLLS) throw new Error('A camera was not looked at.')
      await delay(POLL_MS)
    }
  }
  return watches
}

function rowOf(name: string, { cpu, fed, looks, dropped }: Load, goal: number | null): string[] {
  const share = fed === null ? '' : `${(100 * fed).toFixed(0)} %`
  return [name, cpu.toFixed(3), goal === null ? '' : ratio(cpu, goal), share, looks?.toFixed(2) ?? '', `${dropped}`]
}

async function printMemory(server: BenchServer, cameras: CameraProcess, seconds: number): Promise<void> {
  const megabytes = async () => (await proportionalBytes(server.pid)) / 2 ** 20
  const before = await megabytes()
  const urls = cameras.urls({ moving: 4, still: MEMORY_CAMERAS - 4 })
  const watches = await watchAll(server, urls, { questions: predicates(QUESTIONS), fps: 1 })
  const first = (await megabytes()) - before
  await delay(1000 * seconds)
  const last = (await megabytes()) - before
  for (const watch of watches) await watch.close()
  print(
    `${MEMORY_CAMERAS} cameras take ${first.toFixed(0)} MB more than none once each was looked at, and ${last.toFixed(0)} MB ${seconds} s later (shared pages divided): ${ratio(last, GOALS.megabytes)} of the goal.\n`,
  )
}

async function printEvents(server: BenchServer, cameras: CameraProcess, seconds: number): Promise<void> {
  const settings = { questions: [RED_CIRCLE], fps: FASTEST, motion: null, decode: 'all' }
  const [watch] = await watchAll(server, cameras.urls({ flips: 1 }), settings)
  const times: number[] = []
  const leaving = new AbortController()
  const following = watch!.follow(({ type, data: { frame } }) => {
    const isNew = type === 'watch.event.started' || type === 'watch.event.ended'
    // Both clocks are those of this machine.
    if (isNew && frame) times.push(Date.now() - Date.parse(frame.time))
  }, leaving.signal)
  await delay(1000 * seconds)
  leaving.abort()
  await following
  await watch!.close()
  if (times.length === 0) return print('The camera that flips brought no events.\n')
  const late = percentile(times, 0.95)
  print(
    `From the last packet of a frame until its event, without \`for_seconds\`, is on a stream, which is after it is stored: ${times.length} events, median ${median(times).toFixed(0)} ms, 95th percentile ${late.toFixed(0)} ms, ${ratio(late, GOALS.eventMs)} of the goal.\n`,
  )
}

function ratio(value: number, goal: number): string {
  return (value / goal).toFixed(2)
}

/** Cameras in a process of their own. */
export class CameraProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #addresses: CameraAddresses

  static async start(counts: CameraCounts): Promise<CameraProcess> {
    const child = fork(PROGRAM, [JSON.stringify(counts)])
    const failed = once(child, 'exit').then(() => {
      throw new Error('The cameras did not start.')
    })
    const [addresses] = await Promise.race([once(child, 'message'), failed])
    failed.catch(() => {})
    return new CameraProcess(child, addresses as CameraAddresses)
  }

  private constructor(child: ChildProcess, addresses: CameraAddresses) {
    this.#child = child
    this.#addresses = addresses
  }

  get rates(): Readonly<Record<string, number>> {
    return this.#addresses.rates
  }

  urls(counts: CameraCounts): string[] {
    const kinds = Object.entries(counts) as [CameraKind, number][]
    return kinds.flatMap(([kind, count]) => this.#addresses.urls[kind].slice(0, count))
  }

  /** How many frames all have sent until now. */
  async sent(): Promise<number> {
    const answer = once(this.#child, 'message')
    this.#child.send('count')
    return (await answer)[0] as number
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.kill()
    await exited
  }
}
