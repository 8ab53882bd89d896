import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { ModelEntry } from '../../client/answers.ts'
import { type ClientOptions, LookoutClient, MOST_WAIT_S } from '../../client/client.ts'
import { ServerError } from '../../client/server-error.ts'
import { type Config, ConfigError, localUrl } from '../../config/config.ts'
import { DEMONSTRATION_NOTE, isDemonstration } from '../../config/shipped-model.ts'
import { shownAddress } from '../../hub/choice/model-address.ts'
import type { ModelCard } from '../../models/card.ts'
import { loadConfig } from '../load-config.ts'
import { NO_MODEL } from '../models/no-model.ts'
import { warn } from '../warn.ts'
import { readNumber } from './numbers.ts'
import { note, partingSignal } from './screen.ts'
import type { ServiceProcessMessage } from './service-process.ts'
import type { ModelNames } from './words.ts'

export interface ConnectionOptions {
  /** The value of `--server`. */
  readonly server: string | undefined
  /** The value of `--key`. */
  readonly key: string | undefined
  /** Requests in the background give way to those of others. */
  readonly priority?: 'background'
  /** Whether a program reads the output: then no note about the model is printed. */
  readonly isForProgram?: boolean | undefined
  /** Seconds to wait for a server that is too busy or restarts. Without it, a restart is an error. */
  readonly wait?: number
  /** Host of the camera that a service of its own may connect to. */
  readonly cameraHost?: string | undefined
  /** Prints a line beside the results. */
  readonly say?: (line: string) => void
}

/** Where questions are answered. */
export interface Place {
  readonly names: ModelNames
  /** The default model for finding objects; null if none does that. */
  readonly detector: string | null
  /**
   * @param model one of the names; null for the first.
   * @returns the client, which ends when it is closed.
   */
  open(model: string | null): Promise<Opened>
}

export interface Opened extends AsyncDisposable {
  readonly client: LookoutClient
}

export const CONNECTION_OPTIONS = {
  server: { type: 'string' },
  key: { type: 'string' },
  model: { type: 'string', short: 'm' },
} as const

export const CONNECTION_HELP = `  -m, --model      the model, instead of naming it first
  --server         ask this server, http://host:port [LOOKOUT_URL]
  --key            its API key [LOOKOUT_API_KEY]

Without --server, the command uses the server at LOOKOUT_HOST and LOOKOUT_PORT if it is running and accepts the key in
LOOKOUT_API_KEY. Otherwise it loads the model for this one command, and nothing is kept.`

export const WAIT_OPTION = { wait: { type: 'string' } } as const

export const WAIT_HELP = `  --wait           seconds to wait while the server restarts, is too busy or limits the rate [${MOST_WAIT_S}]`

const LONGEST_WAIT_S = 7 * 24 * 3600

export function readWait(given: string | undefined): number {
  return readNumber(given, '--wait', { min: 0, max: LONGEST_WAIT_S }) ?? MOST_WAIT_S
}

/** A port where no server listens refuses at once; a server may be busy, and the model must not be loaded twice. */
const PROBE_MS = 10_000

/**
 * Finds where to ask: the server that the options or LOOKOUT_URL name; the one that runs with the settings of this
 * machine; or else a service of its own.
 * @throws Error in one sentence.
 */
export async function findPlace(options: ConnectionOptions): Promise<Place> {
  const config = await loadConfig()
  const key = options.key ?? config.apiKey
  const { wait, say = note } = options
  const asking = {
    key,
    priority: options.priority ?? null,
    ...(wait === undefined ? {} : { mostWait: wait, waitsForRestart: true }),
    onWait: say,
    onNote: say,
    parting: partingSignal,
  }
  const explains = process.stderr.isTTY && !options.isForProgram
  const named = options.server ?? (process.env.LOOKOUT_URL || undefined)
  if (named !== undefined) {
    const url = readUrl(named, options.server === undefined ? 'LOOKOUT_URL' : '--server')
    return remotePlace(await connect(url, asking), explains)
  }
  const local = config.port === 0 ? null : await probe(localUrl(config), asking)
  return local === null
    ? ownPlace({ ...config, ...allowing(options.cameraHost) }, explains)
    : remotePlace(local, explains)
}

/** The model to ask: the named one, or otherwise the first. @throws ConfigError if there is none. */
export function chosenModel({ names }: Place, named: string | null | undefined): string {
  const model = named ?? names.ids[0]
  if (model === undefined) throw new ConfigError(NO_MODEL)
  return model
}

interface Connected {
  readonly client: LookoutClient
  readonly models: readonly ModelEntry[]
}

type Asking = Omit<ClientOptions, 'url'>

/** @param models of the server, if it has already listed them. */
async function connect(url: string, asking: Asking, models?: readonly ModelEntry[]): Promise<Connected> {
  const client = new LookoutClient({ url, ...asking, onWarning: warn, hasAnswered: models !== undefined })
  return { client, models: models ?? (await client.models()) }
}

/** @param explains whether to print a note if the model is the demonstration. */
function remotePlace({ client, models }: Connected, explains: boolean): Place {
  // Only models that write; others make embeddings.
  const ids = models.filter(({ output_formats: formats }) => formats?.length !== 0).map(({ id }) => id)
  // Servers of old versions do not send `output_formats`.
  const detector = models.find(({ modalities, output_formats: formats }) => findsObjects(modalities, formats))
  return {
    detector: detector?.id ?? null,
    names: { ids, has: async (name) => ids.includes(name) || (await client.model(name)) !== null },
    open: async (model) => {
      const name = model ?? ids[0]
      // A server of another version may not say so.
      if (explains && name !== undefined && (await isDemonstrationOf(client, ids, name).catch(() => false))) {
        note(DEMONSTRATION_NOTE)
      }
      return { client, [Symbol.asyncDispose]: async () => {} }
    },
  }
}

/** Whether a server's model, by its id or an alias, is the demonstration. */
async function isDemonstrationOf(client: LookoutClient, ids: readonly string[], name: string): Promise<boolean> {
  const id = ids.includes(name) ? name : (await client.model(name))?.id
  return id !== undefined && client.isDemonstration(id)
}

/** Null when no server runs there, or if it rejects the key, for which a note is printed. */
async function probe(url: string, asking: Asking): Promise<Connected | null> {
  const { key } = asking
  const response = await fetch(`${url}/v1/models?extended=true`, {
    headers: key === null ? {} : { authorization: `Bearer ${key}` },
    signal: AbortSignal.timeout(PROBE_MS),
  }).catch(() => null)
  const body = (await response?.json().catch(() => null)) as {
    object?: string
    data?: readonly ModelEntry[]
    error?: { type?: string }
  } | null
  if (response?.ok && body?.object === 'list') return connect(url, asking, body.data)
  if (response?.status === 429 && body?.error?.type === 'rate_limit_error') return connect(url, asking)
  if (response?.status === 401 && body?.error?.type === 'authentication_error') {
    note(
      `a server runs at ${url}, but ${key === null ? 'no key for it is known' : 'it does not know the key'}: set LOOKOUT_API_KEY to ask it`,
    )
  }
  return null
}

function readUrl(given: string, origin: string): string {
  const url = URL.canParse(given) ? new URL(given) : null
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError(`${origin}: expected an address such as http://127.0.0.1:8080, not '${shownAddress(given)}'`)
  }
  // The header for a login is used for the key.
  if (url.username !== '' || url.password !== '') {
    throw new ConfigError(`${origin}: the address may hold no login; the key is in --key or LOOKOUT_API_KEY`)
  }
  return `${url.origin}${url.pathname}`.replace(/(\/v1)?\/*$/, '')
}

/** Lets a service of its own connect to the named camera. It stores nothing that it encrypts. */
function allowing(cameraHost: string | undefined): Partial<Config> {
  return cameraHost === undefined ? {} : { cameraHosts: [cameraHost], secret: randomBytes(24).toString('base64url') }
}

const SERVICE_PROCESS = fileURLToPath(new URL('service-process.ts', import.meta.url))

/** A service for this command alone, with only the model that is needed. It leaves nothing behind. */
async function ownPlace(config: Config, explains: boolean): Promise<Place> {
  // Loaded only with a model: it takes longer than everything else in a command that asks a server.
  const { readKnownCards } = await import('../models/known-models.ts')
  const cards = (await readKnownCards(config)).map(({ card }) => card)
  const writers = cards.filter(({ embedding }) => embedding === undefined)
  const cardOf = (name: string) =>
    cards.find(({ serves }) => serves.some(({ id, aliases }) => id === name || aliases.includes(name)))
  const detector = cards
    .flatMap(({ serves }) => serves)
    .find(({ modalities, outputFormats }) => findsObjects(modalities, outputFormats))
  return {
    detector: detector?.id ?? null,
    names: {
      ids: writers.flatMap(({ serves }) => serves.map(({ id }) => id)),
      has: async (name) => cardOf(name) !== undefined,
    },
    open: async (model) => {
      const chosen = model === null ? writers[0] : (cardOf(model) ?? writers[0])
      if (chosen === undefined) throw new ConfigError(NO_MODEL)
      if (explains && isDemonstration(chosen)) note(DEMONSTRATION_NOTE)
      return startOwn(config, chosen)
    },
  }
}

async function startOwn(config: Config, card: ModelCard): Promise<Opened> {
  note(`loading ${card.name} (${card.serves[0]!.id}) ...`)
  const known = new Set(card.serves.flatMap(({ id, aliases }) => [id, ...aliases]))
  const key = randomBytes(24).toString('base64url')
  const own: Config = {
    ...config,
    host: '127.0.0.1',
    port: 0,
    apiKey: key,
    databaseUrl: null,
    redisUrl: null,
    rateLimits: null,
    batchLines: 0,
    corsOrigins: [],
    metrics: null,
    prefixDisk: null,
    logLevel: 'silent',
    drainSeconds: 0,
    modelCards: [card.file],
    aliases: Object.fromEntries(Object.entries(config.aliases).filter(([, target]) => known.has(target))),
  }
  const child = fork(SERVICE_PROCESS, { serialization: 'advanced', stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  const ended = once(child, 'exit')
  const close = async () => {
    if (child.connected) child.disconnect()
    await ended
  }
  const said = once(child, 'message').then(([message]) => message as ServiceProcessMessage)
  child.send(own)
  const message = await Promise.race([said, ended.then(() => ({ error: 'the process of the service ended' }))])
  if ('error' in message) {
    await close()
    throw new Error(message.error)
  }
  return {
    client: new LookoutClient({ url: message.url, key, onNote: note, onWarning: warn, parting: partingSignal }),
    [Symbol.asyncDispose]: close,
  }
}

function findsObjects(modalities: readonly string[] = [], formats: readonly string[] = []): boolean {
  return modalities.includes('image') && (formats.includes('box') || formats.includes('point'))
}

/** Whether an error concerns only this input, so that others may still be answered. */
export function isAboutInput(error: unknown): boolean {
  if (!(error instanceof ServerError) || (error.status !== 400 && error.status !== 413)) return false
  // For an input that is too long, the error may name the parameter of the question.
  return /^(media|messages\[|input\[|file$|frame$)/.test(error.param ?? '') || error.code === 'context_length_exceeded'
}
