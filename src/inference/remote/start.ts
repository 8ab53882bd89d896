import { countImageTokens, type ImageProcessing } from '../../families/processors/image-processing.ts'
import type { OpenAiModelCard, RemoteModelCard } from '../../models/card.ts'
import { CardError } from '../../models/card-error.ts'
import type { Engine, ModelInfo } from '../contract/engine.ts'
import { ConstraintWriter } from './constraint-writer.ts'
import type { Exchange, ReadPrompt } from './exchange.ts'
import type { PictureRule, RemotePrompt } from './prompt.ts'
import { RemoteEngine } from './remote-engine.ts'
import { describeRemoteModel, type RemoteModel } from './remote-model.ts'
import { HEALTH_TIMES, type HealthChecks, type HealthTimes, ModelServer } from './servers/server.ts'
import { Servers } from './servers/servers.ts'
import { SglangWire } from './sglang/sglang-wire.ts'
import { TokenExchange } from './token-exchange.ts'
import { lineBreaks } from './tokens/line-breaks.ts'
import { MarkBreaker } from './tokens/mark-breaker.ts'
import { Printer } from './tokens/printer.ts'
import { textGuard } from './tokens/text-guard.ts'
import { TokenizerThreads } from './tokens/tokenizer-threads.ts'
import { VllmWire } from './vllm/vllm-wire.ts'
import type { TokenWire, Wire } from './wire/wire.ts'
import { noServer } from './work-run.ts'

export interface RemoteEngineOptions {
  /** Maximum requests that wait for their first completion to start. The card's number takes precedence. */
  readonly maxWaiting?: number | undefined
  /** Interval and timeout of health checks. */
  readonly health?: HealthTimes | undefined
  /** Maximum silence of a completion after it has begun, in ms. */
  readonly silenceMs?: number | undefined
  /** Receives log lines. They contain no text from users. */
  readonly logger?: { info(message: string): void; warn(message: string): void } | undefined
  /** Called whenever a server becomes unusable. */
  readonly onRestart?: (() => void) | undefined
}

const DEFAULT_MAX_WAITING = 128
const SILENT = { info() {}, warn() {} }
/** Reveals differences in a tokenizer's pre-tokenisation, merges and bytes. */
const SAMPLE = "Which of the 12 robots' arms isn't moving?\n\t// naïve \u{1F916} 测试"

/**
 * Connects to the servers of a card. Servers that do not respond yet become usable later; one with another model is an
 * error.
 * @throws CardError
 */
export async function startRemoteEngine(
  card: RemoteModelCard,
  options: RemoteEngineOptions = {},
): Promise<RemoteEngine<RemotePrompt>> {
  const model = await describeRemoteModel(card)
  const tokenizer = new TokenizerThreads(model.folder)
  try {
    return await connect(card, model, tokenizer, options)
  } catch (error) {
    await tokenizer.close()
    throw error
  }
}

async function connect(
  card: RemoteModelCard,
  { info, headers }: RemoteModel,
  tokenizer: TokenizerThreads,
  options: RemoteEngineOptions,
): Promise<RemoteEngine<RemotePrompt>> {
  const { logger = SILENT, silenceMs } = options
  const reject = (field: string, problem: string): never => {
    throw new CardError(card.file, `engine.${field}`, problem)
  }
  const vocabulary = await tokenizer.vocabulary().catch((error: Error) => reject('tokenizer', error.message))
  const printer = new Printer(vocabulary, card.engine.printedTokens)
  const [sample] = (await tokenizer.encode([[{ text: SAMPLE, trusted: false }]], '')) ?? []
  const image = info.modalities.image ? card.image : undefined
  const given = {
    model: card.engine.model,
    apiKey: apiKeyOf(card),
    contextTokens: info.contextTokens,
    sample: { text: SAMPLE, tokens: Array.from(sample!) },
    takesPictures: image !== undefined,
    silenceMs,
  }
  const wire: TokenWire = card.engine.type === 'vllm' ? new VllmWire(given) : new SglangWire(given)
  const breakerOf = ({ marks }: NonNullable<Wire['rereads']>) => {
    try {
      return new MarkBreaker(vocabulary, marks)
    } catch (error) {
      return reject('tokenizer', (error as Error).message)
    }
  }
  const exchange = new TokenExchange({
    wire,
    printer,
    tokenizer,
    beginToken: vocabulary.beginToken,
    stopTokens: headers.stopTokens,
    repetition: card.engine.repetition,
    pictures:
      image === undefined
        ? null
        : {
            ...(await pictureRuleOf(headers.images!, image, tokenizer)),
            breaker: wire.rereads === null ? null : breakerOf(wire.rereads),
          },
    warn: (message) => logger.warn(message),
  })
  return openEngine({ card, info: { ...info, longestTokenBytes: printer.longestBytes }, exchange }, options)
}

/** @throws Error for a tokenizer that does not respond in time. */
async function pictureRuleOf(
  { limits, placeholder, tokens: rule }: ImageProcessing,
  image: NonNullable<RemoteModelCard['image']>,
  tokenizer: TokenizerThreads,
): Promise<Omit<PictureRule, 'breaker'>> {
  const { before = '', target, after = '', isText = false, joinsLines = false } = placeholder
  const texts = [before, target, after, ' ', '\n', '\n\n'].map((text) => [{ text, trusted: true }])
  const encoded = (await tokenizer.encode(texts, '')) ?? []
  const [begin, replaced, end, space, one, two] = encoded.map((tokens) => Array.from(tokens)) as number[][]
  const canJoin = joinsLines && one!.length === 1 && two!.length === 1
  const geometry = limits ?? image
  return {
    placeholder: [...begin!, ...replaced!, ...end!],
    replaced: replaced!.length,
    countTokens: (size) => countImageTokens(rule, geometry, size),
    guard: isText ? textGuard(replaced!, space!) : null,
    lines: canJoin ? lineBreaks(one![0]!, two![0]!, replaced![0]!) : null,
  }
}

/**
 * The API key for the card's servers; null for none.
 * @throws CardError if its environment variable is not set.
 */
export function apiKeyOf({ file, engine: { apiKeyEnv } }: RemoteModelCard | OpenAiModelCard): string | null {
  if (apiKeyEnv === undefined) return null
  const key = process.env[apiKeyEnv]
  if (key === undefined) throw new CardError(file, 'engine.apiKeyEnv', `${apiKeyEnv} is not set`)
  return key
}

export interface OpenedModel<Prompt extends ReadPrompt> {
  readonly card: RemoteModelCard | OpenAiModelCard
  readonly info: ModelInfo
  readonly exchange: Exchange<Prompt>
}

/**
 * Checks the servers of a card, now and at intervals.
 * @throws CardError for a server that does not match the card.
 */
export async function openEngine<Prompt extends ReadPrompt>(
  { card, info, exchange }: OpenedModel<Prompt>,
  options: RemoteEngineOptions,
): Promise<RemoteEngine<Prompt>> {
  const { logger = SILENT } = options
  const servers = serversOf(card, exchange.wire, options)
  const engine = new RemoteEngine({
    info,
    exchange,
    servers,
    constraints: new ConstraintWriter(),
    maxWaiting: mostWaiting(card, options),
    warn: (message) => logger.warn(message),
  })
  return watched(card, servers, engine)
}

export function mostWaiting({ engine }: OpenedModel<ReadPrompt>['card'], { maxWaiting }: RemoteEngineOptions): number {
  return engine.queueLength ?? maxWaiting ?? DEFAULT_MAX_WAITING
}

/** The servers of a card, without health checks. */
export function serversOf(
  { engine: { urls, maxSequences } }: OpenedModel<ReadPrompt>['card'],
  wire: HealthChecks,
  { health = HEALTH_TIMES, logger = SILENT, onRestart }: RemoteEngineOptions,
): Servers {
  let lastUp = 0
  const all: ModelServer[] = urls.map(
    (url) =>
      new ModelServer(url, wire, health, {
        changed: () => {
          if (servers.up.length < lastUp) onRestart?.()
          lastUp = servers.up.length
          if (lastUp === 0) servers.failWaiting(noServer())
          else servers.serve()
        },
        log: (level, message) => logger[level](message),
      }),
  )
  const servers = new Servers(all, maxSequences)
  return servers
}

/**
 * Starts the health checks of an engine's servers.
 * @throws CardError after closing the engine.
 */
export async function watched<Opened extends Engine>(
  card: OpenedModel<ReadPrompt>['card'],
  { all }: Servers,
  engine: Opened,
): Promise<Opened> {
  try {
    await Promise.all(all.map((server) => server.watch()))
    const wrong = all.find(({ state }) => state === 'wrong')
    if (wrong !== undefined)
      throw new CardError(card.file, 'engine.urls', `${wrong.url} cannot be used: ${wrong.problem}`)
    return engine
  } catch (error) {
    await engine.close()
    throw error
  }
}
