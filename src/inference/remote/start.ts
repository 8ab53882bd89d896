import type { VllmModelCard } from '../../models/card.ts'
import { CardError } from '../../models/card-error.ts'
import { ConstraintWriter } from './constraint-writer.ts'
import { RemoteEngine } from './remote-engine.ts'
import { describeRemoteModel, type RemoteModel } from './remote-model.ts'
import { HEALTH_TIMES, type HealthTimes, ModelServer } from './servers/server.ts'
import { Servers } from './servers/servers.ts'
import { Printer } from './tokens/printer.ts'
import { TokenizerThreads } from './tokens/tokenizer-threads.ts'
import { VllmWire } from './vllm/vllm-wire.ts'
import { noServer } from './work-run.ts'

export interface RemoteEngineOptions {
  /** Requests that may wait for their first completion to start. The card's number takes precedence. */
  readonly maxWaiting?: number | undefined
  /** How the servers' health is checked. */
  readonly health?: HealthTimes | undefined
  /** How long a completion may be silent once it has begun, in ms. */
  readonly silenceMs?: number | undefined
  /** Receives log lines. They contain no text from users. */
  readonly logger?: { info(message: string): void; warn(message: string): void } | undefined
  /** Called whenever a server can no longer be used. */
  readonly onRestart?: (() => void) | undefined
}

const DEFAULT_MAX_WAITING = 128
const SILENT = { info() {}, warn() {} }
/** Shows a tokenizer's pre-tokenisation, its merges and its bytes. */
const SAMPLE = "Which of the 12 robots' arms isn't moving?\n\t// naïve \u{1F916} 测试"

/**
 * Connects to the servers of a card. Servers that do not answer yet are waited for while the engine is used; one that
 * answers as another model is an error.
 * @throws CardError
 */
export async function startRemoteEngine(card: VllmModelCard, options: RemoteEngineOptions = {}): Promise<RemoteEngine> {
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
  card: VllmModelCard,
  { info, headers }: RemoteModel,
  tokenizer: TokenizerThreads,
  { maxWaiting, health = HEALTH_TIMES, silenceMs, logger = SILENT, onRestart }: RemoteEngineOptions,
): Promise<RemoteEngine> {
  const { urls, model, apiKeyEnv, printedTokens, maxSequences, queueLength } = card.engine
  const reject = (field: string, problem: string): never => {
    throw new CardError(card.file, `engine.${field}`, problem)
  }
  const vocabulary = await tokenizer.vocabulary().catch((error: Error) => reject('tokenizer', error.message))
  const printer = new Printer(vocabulary, printedTokens)
  const [sample] = (await tokenizer.encode([[{ text: SAMPLE, trusted: false }]], '')) ?? []
  const apiKey =
    apiKeyEnv === undefined ? null : (process.env[apiKeyEnv] ?? reject('apiKeyEnv', `${apiKeyEnv} is not set`))
  const wire = new VllmWire({
    model,
    apiKey,
    contextTokens: info.contextTokens,
    sample: { text: SAMPLE, tokens: Array.from(sample!) },
    silenceMs,
  })
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
  let lastUp = 0
  const engine = new RemoteEngine({
    info: { ...info, longestTokenBytes: printer.longestBytes },
    wire,
    servers,
    tokenizer,
    printer,
    constraints: new ConstraintWriter(),
    beginToken: vocabulary.beginToken,
    stopTokens: headers.stopTokens,
    pictures:
      info.modalities.image && card.image !== undefined
        ? { marks: headers.pictureMarks!, pixelsPerToken: card.image.pixelsPerToken }
        : null,
    maxWaiting: queueLength ?? maxWaiting ?? DEFAULT_MAX_WAITING,
    warn: (message) => logger.warn(message),
  })
  try {
    await Promise.all(all.map((server) => server.watch()))
    const wrong = all.find(({ state }) => state === 'wrong')
    if (wrong !== undefined) reject('urls', `${wrong.url} cannot be used: ${wrong.problem}`)
    return engine
  } catch (error) {
    await engine.close()
    throw error
  }
}
