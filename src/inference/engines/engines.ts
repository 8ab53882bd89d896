import { isLocal, localCard, type ModelCard, openAiCard, remoteCard } from '../../models/card.ts'
import { textOnly } from '../../models/text-only.ts'
import type { Engine, ModelInfo } from '../contract/engine.ts'
import { LocalEngine, type LocalEngineOptions } from '../local/host/local-engine.ts'
import { missingEncoder } from '../local/host/missing-encoder.ts'
import { describeModel } from '../local/host/model-files.ts'

export { machineSpeed } from '../local/host/machine-speed.ts'
export { encoderProblem } from '../local/host/missing-encoder.ts'

export type EngineOptions = Omit<LocalEngineOptions, 'logger'> & {
  readonly logger?: NonNullable<LocalEngineOptions['logger']> & { info(message: string): void }
}

/** Describes a model before its engine starts. */
export interface EngineDescription {
  readonly info: ModelInfo
  /** Estimated memory of its engine on this machine, in bytes. */
  readonly memoryBytes: number
  /** Size of its weights; null if they are on other machines. */
  readonly fileBytes: number | null
  /** Format of the weights, e.g. `Q4_K_M`; null if unknown. */
  readonly quantisation: string | null
  /** Warnings for the operator, one line each. */
  readonly warnings: readonly string[]
}

/**
 * The card as this machine can serve it.
 * @param warn receives what the machine lacks and how to fix it, if it can serve less than the card says.
 */
export function servableCard(card: ModelCard, warn: (message: string) => void): ModelCard {
  const problem = missingEncoder(card)
  if (problem === null) return card
  warn(problem)
  return textOnly(localCard(card))
}

/**
 * Starts the engine that a card names.
 * @throws Error that says what is wrong and what to do about it.
 */
export async function startEngine(card: ModelCard, options: EngineOptions = {}): Promise<Engine> {
  if (isLocal(card)) return LocalEngine.start(card, options)
  // The process of a local engine should not have to wait until the code of remote engines is loaded.
  if (card.engine.type !== 'openai')
    return (await import('../remote/start.ts')).startRemoteEngine(remoteCard(card), options)
  if (card.embedding !== undefined)
    return (await import('../remote/embedding-engine.ts')).startEmbeddingEngine(openAiCard(card), options)
  return (await import('../remote/start-text.ts')).startTextEngine(openAiCard(card), options)
}

/**
 * Reads the headers of a model's files.
 * @throws CardError for files that are missing or of another kind, or a card that claims more than the model can do.
 */
export async function describeCard(
  card: ModelCard,
  caches: Parameters<typeof describeModel>[1] = {},
): Promise<EngineDescription> {
  if (isLocal(card)) return describeModel(card, caches)
  if (card.engine.type === 'openai') {
    const { describeTextModel } = await import('../remote/text-model.ts')
    return { ...describeTextModel(openAiCard(card)), ...ELSEWHERE }
  }
  const { describeRemoteModel } = await import('../remote/remote-model.ts')
  const { info } = await describeRemoteModel(remoteCard(card))
  return { info, ...ELSEWHERE, warnings: [] }
}

/** The weights are on other machines. */
const ELSEWHERE = { memoryBytes: 0, fileBytes: null, quantisation: null } as const
