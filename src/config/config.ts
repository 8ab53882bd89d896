import { homedir, totalmem } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { COMPATIBILITIES, type Compatibility } from './compatibility.ts'
import { BUCKETS, type Bucket, type LimitChanges } from './rate-limits.ts'

/** Settings of one server, read from the environment once. */
export interface Config {
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  /** The key that clients must send; null for one that the server makes and keeps. */
  readonly apiKey: string | null
  readonly dataDirectory: string
  /** For what can be made again, on this machine; null for the platform's place for caches. */
  readonly cacheDirectory: string | null
  /** `postgres://...`; null for the embedded database in the data directory. */
  readonly databaseUrl: string | null
  /** Where the bytes of uploaded files are: a folder, or `s3://bucket/prefix?endpoint=...&region=...` */
  readonly blobs: string
  /** `redis://...`, where servers count requests together; null to count in this process. */
  readonly redisUrl: string | null
  /** Origins whose pages may call from a browser; `*` for all. */
  readonly corsOrigins: readonly string[]
  /** What differs from the contract's rate limits, by class of endpoints; null for no limits. */
  readonly rateLimits: LimitChanges | null
  readonly logLevel: LogLevel
  readonly compatibility: Compatibility
  /** Model cards to serve, and folders of such, as absolute paths. */
  readonly modelCards: readonly string[]
  /** Most bytes that loaded models may take together, by estimate; null for no limit. */
  readonly modelMemoryBytes: number | null
  /** Most bytes of large request bodies that are held at a time. */
  readonly bodyMemoryBytes: number
  /** Requests that may wait for each model before further ones are refused. */
  readonly queueLength: number
  /** Seconds that answers under way get to end when the service is told to stop. */
  readonly drainSeconds: number
  /** Where metrics are served, apart from the API; null for nowhere. A port of 0 takes any free one. */
  readonly metrics: { readonly host: string; readonly port: number } | null
  /** Private hosts (`host` or `host:port`) that pictures may be fetched from. */
  readonly mediaHosts: readonly string[]
}

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

const SHIPPED_CARD = fileURLToPath(new URL('../../models/lookout-nano/card.json', import.meta.url))

export type Environment = Readonly<Record<string, string | undefined>>
/** Where a setting was read, for errors; by the name of its variable. */
export type Origins = Readonly<Record<string, string>>

const port = z
  .string()
  .regex(/^\d{1,5}$/, 'expected a port number')
  .transform(Number)
  .refine((port) => port <= 65_535, 'expected a port number')

/** `on`, `off`, or what differs, as `chat=600,models=60`. */
const rateLimits = z.string().transform((text, context): LimitChanges | null => {
  if (text === 'on') return {}
  if (text === 'off') return null
  const changes: Partial<Record<Bucket, number>> = {}
  for (const item of list(text)) {
    const [, name, limit] = /^(\w+)=(\d{1,9})$/.exec(item) ?? []
    const bucket = BUCKETS.find((known) => known === name)
    if (bucket) changes[bucket] = Number(limit)
    else context.addIssue(`expected on, off or limits such as chat=600 (of ${BUCKETS.join(', ')}), not '${item}'`)
  }
  return changes
})

function address(protocols: readonly string[]) {
  const isOne = (text: string) => URL.canParse(text) && protocols.includes(new URL(text).protocol)
  return z
    .string()
    .refine(isOne, `expected an address that begins with ${protocols.map((name) => `${name}//`).join(' or ')}`)
}

const schema = z.object({
  LOOKOUT_HOST: z.string().default('127.0.0.1'),
  LOOKOUT_PORT: port.default(8080),
  LOOKOUT_API_KEY: z
    .string()
    .regex(/^[\x21-\x7e]+$/, 'expected visible ASCII characters without blanks')
    .nullable()
    .default(null),
  LOOKOUT_DATA_DIR: z.string().optional(),
  LOOKOUT_CACHE_DIR: z.string().refine(isAbsolute, 'expected an absolute path').optional(),
  DATABASE_URL: address(['postgres:', 'postgresql:']).nullable().default(null),
  LOOKOUT_BLOBS: z
    .string()
    .refine(
      (text) => !text.includes('://') || address(['s3:']).safeParse(text).success,
      'expected a folder or s3://bucket',
    )
    .optional(),
  REDIS_URL: address(['redis:', 'rediss:']).nullable().default(null),
  LOOKOUT_CORS_ORIGINS: z
    .string()
    .default('')
    .transform(list)
    .refine(
      (origins) =>
        origins.every((origin) => origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin)),
      'expected origins such as https://example.org, parted by commas, or *',
    ),
  LOOKOUT_RATE_LIMITS: rateLimits.default({}),
  LOOKOUT_LOG_LEVEL: z.enum(LOG_LEVELS).default('info'),
  LOOKOUT_COMPATIBILITY: z.enum(COMPATIBILITIES).default('contract'),
  LOOKOUT_MODEL_CARD: z.string().default(SHIPPED_CARD),
  LOOKOUT_MODELS: z.string().default(''),
  LOOKOUT_MODEL_MEMORY: z
    .string()
    .regex(/^\d{1,6}(\.\d+)?$/, 'expected a number of GiB')
    .transform(Number)
    .refine((gib) => gib > 0, 'expected more than 0 GiB')
    .nullable()
    .default(null),
  LOOKOUT_QUEUE_LENGTH: z
    .string()
    .regex(/^[1-9]\d{0,4}$/, 'expected a number of requests from 1 to 99999')
    .transform(Number)
    .default(128),
  LOOKOUT_MEDIA_HOSTS: z.string().default(''),
  LOOKOUT_BODY_MEMORY: z
    .string()
    .regex(/^\d{1,6}$/, 'expected a number of MiB')
    .transform(Number)
    .refine((mib) => mib >= 20, 'expected at least 20 MiB, the size of the largest body')
    .optional(),
  LOOKOUT_DRAIN_SECONDS: z
    .string()
    .regex(/^\d{1,5}(\.\d+)?$/, 'expected a number of seconds')
    .transform(Number)
    .default(30),
  LOOKOUT_METRICS_HOST: z.string().default('127.0.0.1'),
  LOOKOUT_METRICS_PORT: port.nullable().default(null),
})

/** The variables that settings are read from. */
export const SETTING_NAMES: readonly string[] = Object.keys(schema.shape)

/** A setting that cannot be used; the message is one line that names it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/**
 * @param file settings of a configuration file; the environment wins over them.
 * @throws ConfigError
 */
export function readConfig(
  environment: Environment,
  file: { readonly settings: Environment; readonly origins: Origins } = { settings: {}, origins: {} },
): Config {
  // An empty variable is one that is not set: shells and compose files cannot tell the two apart.
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value))
  const below = Object.fromEntries(Object.entries(file.settings).filter(([, value]) => value))
  const parsed = schema.safeParse({ ...below, ...given })
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!
    const name = issue.path.join('.')
    const place = name in given ? name : (file.origins[name] ?? name)
    throw new ConfigError(`${place}: ${issue.message.replace(/^Invalid \w+: /, '')}`)
  }
  const settings = parsed.data
  const metricsPort = settings.LOOKOUT_METRICS_PORT
  if (metricsPort !== null && metricsPort !== 0 && metricsPort === settings.LOOKOUT_PORT) {
    throw new ConfigError('LOOKOUT_METRICS_PORT: expected another port than LOOKOUT_PORT')
  }
  const dataDirectory = resolve(settings.LOOKOUT_DATA_DIR ?? defaultDataDirectory(environment))
  const blobs = settings.LOOKOUT_BLOBS
  return {
    host: settings.LOOKOUT_HOST,
    port: settings.LOOKOUT_PORT,
    apiKey: settings.LOOKOUT_API_KEY,
    dataDirectory,
    cacheDirectory: settings.LOOKOUT_CACHE_DIR ?? null,
    databaseUrl: settings.DATABASE_URL,
    blobs: blobs?.startsWith('s3://') ? blobs : resolve(blobs ?? join(dataDirectory, 'files')),
    redisUrl: settings.REDIS_URL,
    corsOrigins: settings.LOOKOUT_CORS_ORIGINS,
    rateLimits: settings.LOOKOUT_RATE_LIMITS,
    logLevel: settings.LOOKOUT_LOG_LEVEL,
    compatibility: settings.LOOKOUT_COMPATIBILITY,
    modelCards: [settings.LOOKOUT_MODEL_CARD, ...list(settings.LOOKOUT_MODELS)].map((path) => resolve(path)),
    modelMemoryBytes: settings.LOOKOUT_MODEL_MEMORY === null ? null : settings.LOOKOUT_MODEL_MEMORY * 2 ** 30,
    queueLength: settings.LOOKOUT_QUEUE_LENGTH,
    mediaHosts: list(settings.LOOKOUT_MEDIA_HOSTS),
    bodyMemoryBytes: (settings.LOOKOUT_BODY_MEMORY ?? defaultBodyMemory()) * 2 ** 20,
    drainSeconds: settings.LOOKOUT_DRAIN_SECONDS,
    metrics: metricsPort === null ? null : { host: settings.LOOKOUT_METRICS_HOST, port: metricsPort },
  }
}

/** Items parted by commas. */
function list(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)
}

/** Half a hundredth of what there is, in MiB: six of the largest bodies with 24 GiB. The rest is for models. */
function defaultBodyMemory(): number {
  // Containers may have less than their machine; 0 and absurd numbers mean that nothing is limited.
  const allowed = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.round(Math.min(512, Math.max(64, Math.min(allowed, totalmem()) / 200 / 2 ** 20)))
}

/** Where the platform keeps an application's data. */
function defaultDataDirectory(environment: Environment): string {
  switch (process.platform) {
    case 'darwin':
      return join(homedir(), 'Library', 'Application Support', 'lookout')
    case 'win32':
      return join(environment.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local'), 'lookout')
    default:
      return join(environment.XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'lookout')
  }
}
