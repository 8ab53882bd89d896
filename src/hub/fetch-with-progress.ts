import { type FileTarget, fetchFile } from './download/fetch-file.ts'
import type { Hub } from './download/hub-client.ts'
import type { RemoteFile } from './download/remote-file.ts'
import type { Report } from './pull-event.ts'

/** Window over which the rate is measured. */
const WINDOW_MS = 5000
const REPORT_MS = 200

/** Like `fetchFile`, with regular reports of progress, even while no bytes arrive. */
export async function fetchWithProgress(
  remote: RemoteFile,
  target: FileTarget,
  hub: Hub,
  report: Report,
): Promise<boolean> {
  const { name: file } = remote
  const { size: total } = target
  let samples: { readonly ms: number; readonly done: number }[] = []
  let done = 0
  let reported: string | null = null
  const tell = () => {
    const ms = performance.now()
    samples.push({ ms, done })
    const begin = samples.findLastIndex((sample) => ms - sample.ms > WINDOW_MS)
    samples = samples.slice(Math.max(0, begin))
    const first = samples[0]!
    // A restarted attempt goes back to zero.
    const rate = ms > first.ms ? Math.max(0, (done - first.done) / ((ms - first.ms) / 1000)) : 0
    const eta = rate > 0 ? (total - done) / rate : null
    const state = `${done} ${Math.round(rate)}`
    if (state === reported) return
    reported = state
    report({ type: 'progress', file, done, total, rate, eta })
  }
  const timer = setInterval(tell, REPORT_MS).unref()
  try {
    return await fetchFile(remote, target, {
      ...hub,
      onProgress: (now) => {
        const isFirst = samples.length === 0
        done = now
        if (isFirst || done >= total) tell()
      },
      onCheck: () => report({ type: 'check', file }),
    })
  } finally {
    clearInterval(timer)
  }
}
