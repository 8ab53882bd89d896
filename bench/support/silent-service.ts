/** The whole service with an engine that answers at once, with as many words as allowed, one per event loop turn. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Engine, ModelInfo } from '../../src/inference/contract/engine.ts'
import type {
  EngineEvent,
  Generation,
  Measurement,
  ReadAnswer,
  Reading,
} from '../../src/inference/contract/generation.ts'
import type { PromptPart } from '../../src/inference/contract/parts.ts'
import { TokenTally } from '../../src/inference/contract/token-tally.ts'
import type { ReadWork, Work } from '../../src/inference/contract/work.ts'
import { serveStandIn } from './stand-in.ts'

const TOKENS_WHEN_UNLIMITED = 16

class SilentEngine implements Engine {
  readonly state = 'ready'
  readonly info: ModelInfo

  constructor(info: ModelInfo) {
    this.info = info
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const usage = { promptTokens: 1, imageTokens: 0, audioTokens: 0, cachedTokens: 0 }
    const prompts = work.branches.map(() => usage)
    return new TokenTally().counting({ prompts, events: this.#events(work, signal) })
  }

  async *#events(work: Work, signal: AbortSignal): AsyncGenerator<EngineEvent, void, void> {
    const tokens = work.branches[0]!.maxTokens ?? TOKENS_WHEN_UNLIMITED
    for (let token = 0; token < tokens; token++) {
      for (const branch of work.branches.keys()) yield { type: 'text', branch, completion: 0, text: ' word', tokens: 1 }
      if (token + 1 < tokens) await nextTurn()
      signal.throwIfAborted()
    }
    for (const branch of work.branches.keys()) {
      yield { type: 'finish', branch, completion: 0, reason: 'length', completionTokens: tokens }
    }
  }

  /** Bright pictures are more likely than not what is asked for. */
  async read({ prefix, questions }: ReadWork): Promise<Reading> {
    const usage = { promptTokens: 1, imageTokens: 0, audioTokens: 0, cachedTokens: 0 }
    const isBright = prefix.some((part) => part.type === 'image' && part.image.data[0]! > 128)
    const odds: Readonly<Record<string, number>> = isBright ? { 'Yes.': 0.9, 'No.': 0.1 } : { 'Yes.': 0.1, 'No.': 0.9 }
    async function* answers(): AsyncGenerator<ReadAnswer, void, void> {
      for (const [question, { replies }] of questions.entries()) {
        yield { question, logProbs: replies.map((reply) => Math.log(odds[reply] ?? 1e-9)) }
      }
    }
    return { prompts: questions.map(() => usage), answers: answers() }
  }

  async countTokens(parts: readonly PromptPart[]): Promise<number> {
    return parts.length
  }

  async measure(): Promise<Measurement> {
    return { prompts: [], exact: false }
  }

  async close(): Promise<void> {}
}

const service = await serveStandIn((info) => new SilentEngine(info))
process.stdout.write(`metrics at ${service.metricsUrl}\nlistens on ${service.url}\n`)
process.on('SIGTERM', () => void service.close().then(() => process.exit(0)))
