import { homedir, totalmem } from 'node:os'
import { join, resolve } from 'node:path'
import { readCameras } from './cameras.ts'
import { SETTINGS, type SettingName, settingsSchema } from './settings.ts'
import { readTracing } from './tracing.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** Settings from a configuration file, by name. */
export interface FileSettings {
  readonly values: Readonly<Record<string, unknown>>
  /** The origin of each, for errors: the file, the line and the name. */
  readonly origins: Readonly<Record<string, string>>
}

/** An invalid setting; the message is one line that names it. */
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
    /** The key that clients must send; null if the server generates and stores one. */
    apiKey: settings.api_key,
    /** Encrypts secrets in the database; null to store them unencrypted. */
    secret: settings.secret,
    dataDirectory,
    /** Directory for files that can be recreated, on this machine; null for the platform's cache directory. */
    cacheDirectory: settings.cache_dir,
    /** `postgres://...`; null for the embedded database in the data directory. */
    databaseUrl: settings.database_url,
    /** Where uploaded files are stored: a folder, or `s3://bucket/prefix?endpoint=...&region=...` */
    blobs: blobs ?? join(dataDirectory, 'files'),
    /** `redis://...`, where servers share their request counts; null to count in this process. */
    redisUrl: settings.redis_url,
    /** Origins whose pages may call from a browser; `*` for all. */
    corsOrigins: settings.cors_origins,
    /** Whether to serve the Studio. */
    studio: settings.studio === 'on',
    /** Whether to serve the reference of the API. */
    docs: settings.docs === 'on',
    /** Whether to serve Ollama's clients, which send no key; only with a loopback host. */
    ollama: settings.ollama === 'on',
    /** Changes to the contract's rate limits, by class of endpoints; null for no limits. */
    rateLimits: settings.rate_limits,
    logLevel: settings.log_level,
    logFormat: settings.log_format,
    compatibility: settings.compatibility,
    /** Model cards to serve, and folders of them, as absolute paths; empty if no model is installed. */
    modelCards: [settings.model_card ?? [], settings.models].flat(),
    /** Folder of pulled models, each in a folder with its card. */
    modelStore: join(dataDirectory, 'models'),
    /** Additional names that clients may send, each with the id of the model that answers. */
    aliases: settings.aliases,
    /** Maximum estimated bytes of all loaded models together; null for no limit. */
    modelMemoryBytes: bytes(settings.model_memory, 2 ** 30),
    /** Where local models may run. */
    backend: settings.backend,
    /** Sizes of each model's caches; null to derive them from the memory, and from the limit of all models together. */
    caches: {
      prefixCacheBytes: bytes(settings.prefix_cache, 2 ** 20),
      encoderCacheBytes: bytes(settings.encoder_cache, 2 ** 20),
      memoryLimitBytes: bytes(settings.model_memory, 2 ** 30),
    },
    /** Where all models keep prefixes across restarts; null for nowhere. */
    prefixDisk:
      settings.prefix_cache_disk === 0
        ? null
        : { directory: prefixDirectory(dataDirectory), limitBytes: Math.round(settings.prefix_cache_disk * 2 ** 30) },
    /** Maximum requests that wait for each model before further ones are rejected. */
    queueLength: settings.queue_length,
    /** Maximum seconds of a chat or detect request. */
    chatSeconds: settings.chat_seconds,
    /** Days for which responses are stored; 0 stores none. */
    responseDays: settings.response_days,
    /** Lines of batches that run concurrently; 0 leaves them to other servers. */
    batchLines: settings.batch_lines,
    /** Maximum watches that this server runs; 0 disables watches. */
    watches: settings.watches,
    /** Private hosts (`host` or `host:port`) from which pictures may be fetched. */
    mediaHosts: settings.media_hosts,
    /** Private hosts to which webhooks may be sent. */
    webhookHosts: settings.webhook_hosts,
    /** Cameras that watches may use by name. */
    cameras: cameras(settings.cameras),
    /** Hosts (`host` or `host:port`) and networks of cameras that clients may specify themselves. */
    cameraHosts: settings.camera_hosts,
    /** Whether decoders drop their privileges before they decode. */
    decoderSandbox: settings.decoder_sandbox,
    /** Maximum bytes of large request bodies in memory at a time. */
    bodyMemoryBytes: (settings.body_memory ?? defaultBodyMemory()) * 2 ** 20,
    /** Seconds that running requests get to finish when the service is stopped. */
    drainSeconds: settings.drain_seconds,
    /** How requests are traced, in OpenTelemetry's own variables; null for no tracing. */
    tracing: readTracing(environment),
    /** Where metrics are served, separately from the API; null for nowhere. Port 0 takes any free one. */
    metrics: metricsPort === null ? null : { host: settings.metrics_host, port: metricsPort },
  }
}

/** Whether a server that listens on the host is reachable only from this machine. */
export function isLoopbackHost(host: string): boolean {
  return ['127.0.0.1', '::1', 'localhost'].includes(host)
}

/** The address under which this machine reaches a server with these settings. */
export function localUrl({ host, port }: Pick<Config, 'host' | 'port'>): string {
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}

/** Folder of the prefix cache on disk, even if it is not in use. */
export function prefixDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'prefixes')
}

/** An empty variable counts as not set: shells and compose files cannot distinguish the two. */
function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}

function bytes(given: number | null, unit: number): number | null {
  return given === null ? null : Math.round(given * unit)
}

/** 1/200 of the memory, in MiB: six of the largest bodies with 24 GiB. The rest is for models. */
function defaultBodyMemory(): number {
  // Containers may have less memory than their machine; 0 and absurd numbers mean no limit.
  const allowed = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.round(Math.min(512, Math.max(64, Math.min(allowed, totalmem()) / 200 / 2 ** 20)))
}

/** The platform's directory for an application's data. */
function defaultDataDirectory(environment: Environment): string {
  return process.platform === 'darwin'
    ? join(homedir(), 'Library', 'Application Support', 'lookout')
    : join(environment.XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'lookout')
}
