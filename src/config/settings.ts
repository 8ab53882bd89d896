import { isAbsolute } from 'node:path'
import { z } from 'zod'
import { BACKENDS } from './backend.ts'
import { cameraList } from './cameras.ts'
import { COMPATIBILITIES } from './compatibility.ts'
import { BUCKETS } from './rate-limits.ts'
import {
  address,
  blobPlace,
  choice,
  hosts,
  list,
  listeningHost,
  number,
  onOff,
  parsePairs,
  path,
  port,
  switched,
  text,
} from './setting-types.ts'
import { findShippedCard } from './shipped-model.ts'

interface About {
  readonly help: string
  /** The documented default; absent if it is the value itself. */
  readonly default?: string
  /** Absent for `LOOKOUT_` and the name in capitals. */
  readonly variable?: string
}
const ABOUT = z.registry<About>()

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

const LIMITS = `expected on, off or limits such as chat=600, for any of ${BUCKETS.join(', ')}`
const ALIASES = 'expected names with the models they stand for, such as gpt-4o=service-mk1.5'

/**
 * Every setting under its name in the configuration file: its type, its default and its description. Everything else
 * about settings is derived from it: the variables, `--help`, the table in docs/operations.md, and hints in errors.
 */
export const settingsSchema = z.object({
  host: listeningHost().default('127.0.0.1').register(ABOUT, { help: 'address to listen on' }),
  port: port().default(8080).register(ABOUT, { help: 'port to listen on; 0 takes any free port' }),
  api_key: text()
    .regex(/^[\x21-\x7e]+$/, 'expected visible ASCII characters without spaces')
    .nullable()
    .default(null)
    .register(ABOUT, {
      help: "a key of organisation 'default', in addition to the keys in the database",
      default: 'none',
    }),
  secret: text()
    .min(32, 'expected 32 characters or more, such as openssl rand -base64 32 writes')
    .nullable()
    .default(null)
    .register(ABOUT, {
      help: 'encrypts secrets of webhooks, and addresses and passwords of cameras, in the database. All its servers need the same; keep it',
      default: 'none: secrets and addresses are stored as they are, passwords not at all',
    }),
  data_dir: path().nullable().default(null).register(ABOUT, {
    help: 'folder for the database, uploaded files and the usage journal',
    default: "the platform's folder for application data",
  }),
  cache_dir: text().refine(isAbsolute, 'expected an absolute path').nullable().default(null).register(ABOUT, {
    help: 'folder for compiled libraries and an empty database, which Lookout can create again. Set-up reads only the environment',
    default: "the platform's folder for caches",
  }),
  model_card: path()
    .nullable()
    .default(findShippedCard)
    .register(ABOUT, { help: 'card of the first model to serve', default: 'the shipped model, if it is installed' }),
  models: list(path())
    .default([])
    .register(ABOUT, { help: 'further model cards, or folders that hold model cards', default: 'none' }),
  aliases: z
    .preprocess(parsePairs, z.record(z.string().min(1), z.string(ALIASES).min(1, ALIASES), ALIASES))
    .default({})
    .register(ABOUT, {
      help: 'further names that clients may send, each with the model that answers: gpt-4o=service-mk1.5',
      default: 'none',
    }),
  model_memory: number('a number of GiB greater than 0', { min: Number.MIN_VALUE, max: 999_999 })
    .nullable()
    .default(null)
    .register(ABOUT, { help: 'GiB that all loaded models may take together, by estimate', default: 'no limit' }),
  backend: choice(BACKENDS).default('auto').register(ABOUT, {
    help: 'what local models run on: auto (a GPU if its backend is installed), cpu, vulkan, cuda or metal. Set-up installs it and reads only the environment',
  }),
  prefix_cache: number('a number of MiB', { max: 999_999_999 }).nullable().default(null).register(ABOUT, {
    help: 'MiB in which each model keeps the computed prompts of finished requests, for the next turn of a chat; 0 for none',
    default: 'twice the KV cache, at most a quarter of the memory that the model leaves',
  }),
  prefix_cache_disk: number('a number of GiB', { max: 999_999 }).default(0).register(ABOUT, {
    help: 'GiB of the data directory in which models keep computed prompts, mostly images, across restarts; the files contain what clients sent. 0 for none',
  }),
  encoder_cache: number('a number of MiB', { max: 999_999_999 }).nullable().default(null).register(ABOUT, {
    help: 'MiB in which each model keeps encoded images and audio; 0 for none',
    default: '128 of the largest, at most a sixteenth of the memory that the model leaves',
  }),
  queue_length: number('a number of requests from 1 to 99999', { min: 1, max: 99_999, whole: true })
    .default(128)
    .register(ABOUT, { help: 'requests that may wait for each model; any more get 503' }),
  chat_seconds: number('a number of seconds greater than 0', { min: 0.001, max: 86_400 }).default(120).register(ABOUT, {
    help: 'seconds that a chat or detect request may take; after that, a reply that has started ends with finish reason length, others get 504',
  }),
  response_days: number('a number of days', { max: 36_500 }).default(30).register(ABOUT, {
    help: 'days that a response of /v1/responses is stored after its last use in a conversation; 0 stores none',
  }),
  batch_lines: number('a number of lines from 0 to 999', { max: 999, whole: true }).default(8).register(ABOUT, {
    help: 'lines of batches that the server runs at the same time, with lower priority than requests; 0 leaves batches to other servers',
  }),
  watches: number('a number of watches from 0 to 999', { max: 999, whole: true }).default(16).register(ABOUT, {
    help: 'watches that the server runs; one organisation may have half of them. With 0, requests about watches get 503',
  }),
  media_hosts: hosts().default([]).register(ABOUT, {
    help: 'private hosts (host or host:port) that the server may fetch media from',
    default: 'none',
  }),
  webhook_hosts: hosts().default([]).register(ABOUT, {
    help: 'private hosts (host or host:port) that webhooks of watches may be sent to',
    default: 'none',
  }),
  cameras: cameraList.register(ABOUT, {
    help: 'cameras of watches, in the file: a list of name, url, username, password, certificate, type (rtsp, mjpeg, jpeg or hls) and organisations',
    default: 'none',
  }),
  camera_hosts: hosts({ networks: true }).default([]).register(ABOUT, {
    help: 'hosts (host or host:port) and networks (192.168.1.0/24) of cameras that keys of scope admin may name',
    default: 'none',
  }),
  decoder_sandbox: choice(['auto', 'require', 'off']).default('auto').register(ABOUT, {
    help: 'whether processes that decode media give up files, network and programs: auto (where Linux has seccomp), require (the server does not start elsewhere) or off',
  }),
  body_memory: number('a number of MiB, at least 20, the size of the largest body', {
    min: 20,
    max: 999_999,
    whole: true,
  })
    .nullable()
    .default(null)
    .register(ABOUT, {
      help: 'MiB that large request bodies may take together; further bodies wait',
      default: '1/200 of the memory, between 64 and 512',
    }),
  rate_limits: z
    .preprocess((given) => {
      const value = switched(given)
      if (value !== null) return value ? {} : null
      return parsePairs(given)
    }, z
      .partialRecord(
        z.enum(BUCKETS),
        number('whole numbers of requests per minute', { max: 999_999_999, whole: true }),
        LIMITS,
      )
      .nullable())
    .default({})
    .register(ABOUT, {
      help: 'requests per minute for each organisation: on, off, or limits that differ from the defaults (chat=600,models=60)',
      default: 'on',
    }),
  studio: onOff().default('on').register(ABOUT, { help: 'whether to serve the Studio, the web page, at /studio' }),
  docs: onOff()
    .default('on')
    .register(ABOUT, { help: 'whether to serve the API reference and the documentation at /docs' }),
  ollama: onOff().default('off').register(ABOUT, {
    help: "whether to answer Ollama's clients at /api without a key: only from this machine, for organisation 'default'. Needs a loopback host",
  }),
  cors_origins: list()
    .refine(
      (origins) => origins.every((origin) => origin === '*' || isOrigin(origin)),
      'expected comma-separated origins such as https://example.org or app://obsidian.md, or *',
    )
    .default([])
    .register(ABOUT, {
      help: 'origins whose pages may call the API from a browser; * allows all',
      default: 'none',
    }),
  blobs: blobPlace().nullable().default(null).register(ABOUT, {
    help: 'where the bytes of uploaded files are: a folder, or s3://bucket/prefix?endpoint=https://...&region=...',
    default: 'a folder in the data directory',
  }),
  database_url: address(['postgres:', 'postgresql:']).nullable().default(null).register(ABOUT, {
    help: 'PostgreSQL database, postgres://...',
    default: 'an embedded database in the data directory',
    variable: 'DATABASE_URL',
  }),
  redis_url: address(['redis:', 'rediss:']).nullable().default(null).register(ABOUT, {
    help: 'Redis in which several servers count requests together, redis://...',
    default: 'none: each server counts for itself',
    variable: 'REDIS_URL',
  }),
  compatibility: choice(COMPATIBILITIES).default('contract').register(ABOUT, {
    help: 'contract; or openai, which also accepts what only OpenAI’s chat completions have: tool_choice required, named functions, json_object, stop, seed',
  }),
  log_level: choice(LOG_LEVELS).default('info').register(ABOUT, {
    help: 'lowest level that is logged: fatal, error, warn, info, debug or trace; silent logs nothing',
  }),
  log_format: choice(['auto', 'json', 'pretty']).default('auto').register(ABOUT, {
    help: 'json (one line each), pretty, or auto: pretty on a terminal, json elsewhere',
  }),
  drain_seconds: number('a number of seconds', { max: 99_999 })
    .default(30)
    .register(ABOUT, { help: 'seconds that accepted requests have to finish after SIGTERM' }),
  metrics_port: port().nullable().default(null).register(ABOUT, {
    help: "port of Prometheus' /metrics; 0 takes any free port",
    default: 'none: metrics are not served',
  }),
  metrics_host: listeningHost().default('127.0.0.1').register(ABOUT, { help: 'address to serve metrics on' }),
})

type Settings = z.infer<typeof settingsSchema>
export type SettingName = keyof Settings

/** The description of a setting. */
export interface Setting {
  /** Its name in the configuration file. */
  readonly name: SettingName
  /** Its name in the environment. */
  readonly variable: string
  readonly help: string
  readonly default: string
}

export const SETTINGS: readonly Setting[] = Object.entries(settingsSchema.shape).map(([name, schema]) => {
  const { help, default: shown, variable } = ABOUT.get(schema)!
  return {
    name: name as SettingName,
    variable: variable ?? `LOOKOUT_${name.toUpperCase()}`,
    help,
    default: shown ?? String(schema.parse(undefined)),
  }
})

/**
 * Pages of desktop programs and browser extensions have origins with schemes of their own, for which URLs have no
 * origin. A `*` for a part of an origin, as Ollama accepts it, would never match.
 */
function isOrigin(text: string): boolean {
  if (!URL.canParse(text) || text.includes('*')) return false
  const { origin } = new URL(text)
  return origin === text || (origin === 'null' && /^[a-z][a-z\d+.-]*:\/\/[^\s/?#]*$/.test(text))
}
