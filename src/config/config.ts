import { homedir, totalmem } from 'node:os'
import { join, resolve } from 'node:path'
import { readCameras } from './cameras.ts'
import { SETTINGS, type SettingName, settingsSchema } from './settings.ts'
import { readTracing } from './tracing.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** Settings as a configuration file has them, by their names there. */
export interface FileSettings {
  readonly values: Readonly<Record<string, unknown>>
  /** Where each was read, for errors: the file, the line and the name. */
  readonly origins: Readonly<Record<string, string>>
}

/** A setting that cannot be used; the message is one line that names it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** Settings of one server, read once from the environment and the configuration file. */
export type Config = Readonly<ReturnType<typeof readConfig>>

/**
 * @param file settings of a configuration file; those of the environment take precedence.
 * @throws ConfigError
 */
export function readConfig(environment: Environment, file: FileSettings = { values: {}, origins: {} }) {
  const given: Record<string, unknown> = {}
  const places: Record<string, string> = {}
  for (const { name, variable } of SETTINGS) {
    const isInEnvironment = isSet(environment[variable])
    const value = isInEnvironment ? environment[variable] : file.values[name]
    if (isSet(value)) given[name] = value
    places[name] = isInEnvironment ? variable : (file.origins[name] ?? variable)
  }
  const fail: (name: SettingName, message: string) => never = (name, message) => {
    throw new ConfigError(`${places[name]}: ${message}`)
  }
  const parsed = settingsSchema.safeParse(given)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    fail(issue!.path[0] as SettingName, issue!.message)
  }
  const settings = parsed.data
  const { metrics_port: metricsPort, blobs } = settings
  if (metricsPort !== null && metricsPort !== 0 && metricsPort === settings.port) {
    fail('metrics_port', 'expected another port than that of the API')
  }
  if (settings.ollama === 'on' && !isLoopbackHost(settings.host)) {
    fail(
      'ollama',
      `expected off with host ${settings.host}: its clients send no key, so only this machine may reach it`,
    )
  }
  const cameras = (given: readonly unknown[]) => {
    try {
      return readCameras(given, environment)
    } catch (error) {
      return fail('cameras', (error as Error).message)
    }
  }
  const dataDirectory = settings.data_dir ?? resolve(defaultDataDirectory(environment))
  return {
    host: settings.host,
    /** 0 takes any free port. */
    port: settings.port,
    /** The key that clients must send; null for one that the server makes and keeps. */
    apiKey: settings.api_key,
    /** Encrypts what is secret in the database; null to store it as it is. */
    secret: settings.secret,
    dataDirectory,
    /** For what can be made again, on this machine; null for the platform's place for caches. */
    cacheDirectory: settings.cache_dir,
    /** `postgres://...`; null for the embedded database in the data directory. */
    databaseUrl: settings.database_url,
    /** Where the bytes of uploaded files are: a folder, or `s3://bucket/prefix?endpoint=...&region=...` */
    blobs: blobs ?? join(dataDirectory, 'files'),
    /** `redis://...`, where servers count requests together; null to count in this process. */
    redisUrl: settings.redis_url,
    /** Origins whose pages may call from a browser; `*` for all. */
    corsOrigins: settings.cors_origins,
    /** Whether to serve the Studio. */
    studio: settings.studio === 'on',
    /** Whether to serve the reference of the API. */
    docs: settings.docs === 'on',
    /** Whether to answer Ollama's clients, which send no key; only with a loopback host. */
    ollama: settings.ollama === 'on',
    /** What differs from the contract's rate limits, by class of endpoints; null for no limits. */
    rateLimits: settings.rate_limits,
    logLevel: settings.log_level,
    logFormat: settings.log_format,
    compatibility: settings.compatibility,
    /** Model cards to serve, and folders of such, as absolute paths; none where no model is installed. */
    modelCards: [settings.model_card ?? [], settings.models].flat(),
    /** Folder of the models that were pulled, each in a folder with its card. */
    modelStore: join(dataDirectory, 'models'),
    /** Further names that clients may send, each with the id of the model that answers. */
    aliases: settings.aliases,
    /** Most bytes that loaded models may take together, by estimate; null for no limit. */
    modelMemoryBytes: bytes(settings.model_memory, 2 ** 30),
    /** What local models may run on. */
    backend: settings.backend,
    /** Sizes of caches of each model; null to go by the memory, and by the limit of all models together. */
    caches: {
      prefixCacheBytes: bytes(settings.prefix_cache, 2 ** 20),
      encoderCacheBytes: bytes(settings.encoder_cache, 2 ** 20),
      memoryLimitBytes: bytes(settings.model_memory, 2 ** 30),
    },
    /** Where all models keep prefixes over restarts; null for nowhere. */
    prefixDisk:
      settings.prefix_cache_disk === 0
        ? null
        : { directory: prefixDirectory(dataDirectory), limitBytes: Math.round(settings.prefix_cache_disk * 2 ** 30) },
    /** Requests that may wait for each model before further ones are refused. */
    queueLength: settings.queue_length,
    /** Seconds that a chat or detect request may take. */
    chatSeconds: settings.chat_seconds,
    /** Days that stored responses are kept; 0 stores none. */
    responseDays: settings.response_days,
    /** Lines of batches that run at the same time; 0 leaves them to other servers. */
    batchLines: settings.batch_lines,
    /** Watches that this server runs; 0 for a server that knows none. */
    watches: settings.watches,
    /** Private hosts (`host` or `host:port`) that pictures may be fetched from. */
    mediaHosts: settings.media_hosts,
    /** Private hosts that webhooks may be sent to. */
    webhookHosts: settings.webhook_hosts,
    /** Cameras that watches may have by name. */
    cameras: cameras(settings.cameras),
    /** Hosts (`host` or `host:port`) and networks where cameras may be that clients describe. */
    cameraHosts: settings.camera_hosts,
    /** Whether decoders give up their rights before they decode. */
    decoderSandbox: settings.decoder_sandbox,
    /** Most bytes of large request bodies that are held at a time. */
    bodyMemoryBytes: (settings.body_memory ?? defaultBodyMemory()) * 2 ** 20,
    /** Seconds that answers under way get to end when the service is told to stop. */
    drainSeconds: settings.drain_seconds,
    /** Where and how requests are traced, in OpenTelemetry's own variables; null for not at all. */
    tracing: readTracing(environment),
    /** Where metrics are served, apart from the API; null for nowhere. A port of 0 takes any free one. */
    metrics: metricsPort === null ? null : { host: settings.metrics_host, port: metricsPort },
  }
}

/** Whether only this machine reaches a server that listens on the host. */
export function isLoopbackHost(host: string): boolean {
  return ['127.0.0.1', '::1', 'localhost'].includes(host)
}

/** The address at which this machine reaches a server with these settings. */
export function localUrl({ host, port }: Pick<Config, 'host' | 'port'>): string {
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}

/** Folder of the prefix cache on disk, whether it is used or not. */
export function prefixDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'prefixes')
}

/** An empty variable counts as not set: shells and compose files cannot tell the two apart. */
function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}

function bytes(given: number | null, unit: number): number | null {
  return given === null ? null : Math.round(given * unit)
}

/** 1/200 of the memory, in MiB: six of the largest bodies with 24 GiB. The rest is for models. */
function defaultBodyMemory(): number {
  // Containers may have less than their machine; 0 and absurd numbers mean that nothing is limited.
  const allowed = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.round(Math.min(512, Math.max(64, Math.min(allowed, totalmem()) / 200 / 2 ** 20)))
}

/** Where the platform keeps an application's data. */
function defaultDataDirectory(environment: Environment): string {
  return process.platform === 'darwin'
    ? join(homedir(), 'Library', 'Application Support', 'lookout')
    : join(environment.XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'lookout')
}
