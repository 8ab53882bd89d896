import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import type { TracingVariables } from '../config/tracing.ts'
import type { MediaSource } from '../conversation/prompt/media-parts.ts'
import { version } from '../lib/version.ts'
import type { DecoderPool } from '../media/decoding/process/decoder-pool.ts'
import type { CameraPool, CameraPoolOptions } from '../media/live/camera-pool.ts'
import type { MediaLoader } from '../media/media-loader.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { State } from '../state.ts'
import type { Tracing } from '../tracing/tracing.ts'
import type { Cameras, CamerasOptions } from '../watches/cameras.ts'

/** Loads and decodes media. */
export type Media = MediaSource & Pick<MediaLoader, 'fetch' | 'close'>

/** The rest of the code. Loading it keeps this process busy. */
export async function loadCode() {
  const [{ createApi }, { lineCaller }, { watchLooker }, { readPage }, { BodyReader }, { ByteBudget }, ...others] =
    await Promise.all([
      import('../api/api.ts'),
      import('../api/batch-lines.ts'),
      import('../api/watch-looks.ts'),
      import('../api/pages/page-files.ts'),
      import('../api/http/body/body-reader.ts'),
      import('../api/http/body/byte-budget.ts'),
      import('../conversation/conversations.ts'),
      import('../hub/model-pulls.ts'),
      import('../doctor/examiner.ts'),
    ])
  const [{ Conversations }, { ModelPulls }, { Examiner }] = others
  return { createApi, lineCaller, readPage, BodyReader, ByteBudget, Conversations, ModelPulls, Examiner, watchLooker }
}

export async function openMetrics(): Promise<Metrics> {
  const { Metrics } = await import('../metrics/metrics.ts')
  return new Metrics(await version())
}

/** OpenTelemetry is loaded only if tracing is on. */
export async function openTracing(variables: TracingVariables, logger: Logger): Promise<Tracing | null> {
  const { Tracing } = await import('../tracing/tracing.ts')
  return Tracing.open(variables, await version(), logger)
}

interface MediaParts {
  readonly opening: Promise<State>
  readonly metrics: Metrics | null
  readonly logger: Logger
  readonly decoders: DecoderPool | undefined
}

/** Creates the access to cameras. Its process starts only when a watch has a camera. */
export async function openCameras(
  config: Config,
  options: Pick<CameraPoolOptions, 'resolve' | 'times' | 'warn' | 'meter'> &
    Pick<CamerasOptions, 'probeMs' | 'secrets'>,
): Promise<{ readonly cameras: Cameras; readonly pool: CameraPool }> {
  const [{ CameraPool }, { Cameras }] = await Promise.all([
    import('../media/live/camera-pool.ts'),
    import('../watches/cameras.ts'),
  ])
  const { decoderSandbox: sandbox, cameras: configured, cameraHosts: hosts } = config
  const pool = new CameraPool({ ...options, sandbox })
  return { pool, cameras: new Cameras({ ...options, pool, configured, hosts }) }
}

/**
 * Starts a decoder, which is ready before the models are.
 * @throws Error if a sandbox is required but not available.
 */
export async function openMedia(config: Config, { opening, metrics, logger, decoders }: MediaParts): Promise<Media> {
  const [{ files, mediaDirectory }, { MediaLoader }] = await Promise.all([opening, import('../media/media-loader.ts')])
  const media = new MediaLoader({
    sandbox: config.decoderSandbox,
    decoders,
    allowedHosts: config.mediaHosts,
    files,
    meter: metrics ?? undefined,
    spool: { directory: mediaDirectory },
  })
  const { isOn, description } = media.sandbox
  logger[isOn ? 'info' : 'warn'](description)
  return media
}
