/** Memory of the server's processes while ten cameras are watched for an hour. Linux only (reads /proc). */
import { setTimeout as delay } from 'node:timers/promises'
import { type Benchmark, print } from './support/benchmark.ts'
import { CAMERA_FPS } from './support/camera-kinds.ts'
import { shippedModel } from './support/models.ts'
import { proportionalBytes, residentByProgram } from './support/process-tree.ts'
import { startLookout } from './support/server.ts'
import { table } from './support/table.ts'
import { predicates } from './support/watch-questions.ts'
import { CameraProcess, watchAll } from './watch-cameras.ts'

const CAMERAS = { moving: 1, still: 8, flips: 1 }
const SAMPLES = 12
const MINUTES = 60

export const watchGrowth: Benchmark = {
  summary: 'memory of ten watched cameras over an hour (--repetitions N: minutes)',
  withPeer: false,

  async run({ quick, repetitions }) {
    const minutes = repetitions ?? (quick ? 2 : MINUTES)
    const model = await shippedModel()
    await using server = await startLookout(model.cardFile, model.id, {
      environment: { LOOKOUT_WATCHES: '64', LOOKOUT_CAMERA_HOSTS: '127.0.0.1/32' },
    })
    await using cameras = await CameraProcess.start(CAMERAS)
    const none = await proportionalBytes(server.pid)
    const watches = await watchAll(server, cameras.urls(CAMERAS), { questions: predicates(4), fps: 1 })
    const countAll = async () => {
      const counts = await Promise.all(watches.map((watch) => watch.counts()))
      return counts.reduce((sum, { looks, dropped }) => sum + looks + dropped.still, 0)
    }
    const [sent, looked, from] = [await cameras.sent(), await countAll(), performance.now()]
    const samples: { bytes: number; programs: ReadonlyMap<string, number> }[] = []
    const sample = async () => {
      samples.push({ bytes: await proportionalBytes(server.pid), programs: await residentByProgram(server.pid) })
    }
    await sample()
    for (let taken = 0; taken < SAMPLES; taken++) {
      await delay((minutes * 60_000) / SAMPLES)
      await sample()
    }
    const seconds = (performance.now() - from) / 1000
    const fed = ((await cameras.sent()) - sent) / (CAMERA_FPS * watches.length * seconds)
    const looks = ((await countAll()) - looked) / (watches.length * seconds)
    for (const watch of watches) await watch.close()
    const programs = [...samples.at(-1)!.programs.keys()]
    const megabytes = (bytes: number | undefined) => (bytes === undefined ? '' : (bytes / 2 ** 20).toFixed(0))
    const rows = samples.map(({ bytes, programs: own }, index) => [
      ((index * minutes) / SAMPLES).toFixed(minutes < SAMPLES ? 1 : 0),
      megabytes(bytes - none),
      ...programs.map((name) => megabytes(own.get(name))),
    ])
    const kinds = Object.entries(CAMERAS)
      .map(([kind, count]) => `${count} ${kind}`)
      .join(', ')
    print(`### Ten watched cameras for ${minutes} minutes

${kinds}; ${(100 * fed).toFixed(0)} % of ${CAMERA_FPS} frames a second came, and each was looked at ${looks.toFixed(2)} times a second. "Cameras" is what all processes take more than before the first camera, with shared pages divided; the others are resident.

${table(['minute', 'cameras, MB', ...programs], rows)}`)
  },
}
