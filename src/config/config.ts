import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

/** Settings of one server, read from the environment once. */
export interface Config {
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  /** The key that clients must send; null for one that the server makes and keeps. */
  readonly apiKey: string | null
  readonly dataDirectory: string
  readonly rateLimits: boolean
  readonly logLevel: LogLevel
  /** Model cards to serve, and folders of such, as absolute paths. */
  readonly modelCards: readonly string[]
  /** Most bytes that loaded models may take together, by estimate; null for no limit. */
  readonly modelMemoryBytes: number | null
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

type Environment = Readonly<Record<string, string | undefined>>

const port = z
  .string()
  .regex(/^\d{1,5}$/, 'expected a port number')
  .transform(Number)
  .refine((port) => port <= 65_535, 'expected a port number')

const schema = z.object({
  LOOKOUT_HOST: z.string().default('127.0.0.1'),
  LOOKOUT_PORT: port.default(8080),
  LOOKOUT_API_KEY: z
    .string()
    .regex(/^[\x21-\x7e]+$/, 'expected visible ASCII characters without blanks')
    .nullable()
    .default(null),
  LOOKOUT_DATA_DIR: z.string().optional(),
  LOOKOUT_RATE_LIMITS: z.enum(['on', 'off']).default('on'),
  LOOKOUT_LOG_LEVEL: z.enum(LOG_LEVELS).default('info'),
  LOOKOUT_MODEL_CARD: z.string().default(SHIPPED_CARD),
  LOOKOUT_MODELS: z.string().default(''),
  LOOKOUT_MODEL_MEMORY: z
    .string()
    .regex(/^\d{1,6}(\.\d+)?$/, 'expected a number of GiB')
    .transform(Number)
    .refine((gib) => gib > 0, 'expected more than 0 GiB')
    .nullable()
    .default(null),
  LOOKOUT_MEDIA_HOSTS: z.string().default(''),
  LOOKOUT_DRAIN_SECONDS: z
    .string()
    .regex(/^\d{1,5}(\.\d+)?$/, 'expected a number of seconds')
    .transform(Number)
    .default(30),
  LOOKOUT_METRICS_HOST: z.string().default('127.0.0.1'),
  LOOKOUT_METRICS_PORT: port.nullable().default(null),
})

/** A setting that cannot be used; the message is one line that names it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** @throws ConfigError */
export function readConfig(environment: Environment): Config {
  // An empty variable is one that is not set: shells and compose files cannot tell the two apart.
  const set = Object.fromEntries(Object.entries(environment).filter(([, value]) => value))
  const parsed = schema.safeParse(set)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!
    throw new ConfigError(`${issue.path.join('.')}: ${issue.message.replace(/^Invalid \w+: /, '')}`)
  }
  const settings = parsed.data
  const metricsPort = settings.LOOKOUT_METRICS_PORT
  if (metricsPort !== null && metricsPort !== 0 && metricsPort === settings.LOOKOUT_PORT) {
    throw new ConfigError('LOOKOUT_METRICS_PORT: expected another port than LOOKOUT_PORT')
  }
  return {
    host: settings.LOOKOUT_HOST,
    port: settings.LOOKOUT_PORT,
    apiKey: settings.LOOKOUT_API_KEY,
    dataDirectory: resolve(settings.LOOKOUT_DATA_DIR ?? defaultDataDirectory(environment)),
    rateLimits: settings.LOOKOUT_RATE_LIMITS === 'on',
    logLevel: settings.LOOKOUT_LOG_LEVEL,
    modelCards: [settings.LOOKOUT_MODEL_CARD, ...list(settings.LOOKOUT_MODELS)].map((path) => resolve(path)),
    modelMemoryBytes: settings.LOOKOUT_MODEL_MEMORY === null ? null : settings.LOOKOUT_MODEL_MEMORY * 2 ** 30,
    mediaHosts: list(settings.LOOKOUT_MEDIA_HOSTS),
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
