import { isLocal, type ModelCard, openAiCard, remoteCard } from '../../models/card.ts'
import type { Engine, ModelInfo } from '../engine.ts'
import { LocalEngine, type LocalEngineOptions } from '../local/host/local-engine.ts'
import { describeModel } from '../local/host/model-files.ts'
import { describeRemoteModel } from '../remote/remote-model.ts'
import { startRemoteEngine } from '../remote/start.ts'
import { startTextEngine } from '../remote/start-text.ts'
import { describeTextModel } from '../remote/text-model.ts'

export type EngineOptions = Omit<LocalEngineOptions, 'logger'> & {
  readonly logger?: NonNullable<LocalEngineOptions['logger']> & { info(message: string): void }
}

/** What can be said of a model before its engine starts. */
export interface EngineDescription {
  readonly info: ModelInfo
  /** Estimated memory of its engine on this machine, in bytes. */
  readonly memoryBytes: number
  /** Size of its weights; null where they are on other machines. */
  readonly fileBytes: number | null
  /** In which form the weights are, e.g. `Q4_K_M`; null where that is not known. */
  readonly quantisation: string | null
  /** What the operator should know of, in one line each. */
  readonly warnings: readonly string[]
}

/**
 * Starts the engine that a card names.
 * @throws Error that says what is wrong and what to do about it.
 */
export async function startEngine(card: ModelCard, options: EngineOptions = {}): Promise<Engine> {
  if (card.engine.type === 'openai') return startTextEngine(openAiCard(card), options)
  return isLocal(card) ? LocalEngine.start(card, options) : startRemoteEngine(remoteCard(card), options)
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
  if (card.engine.type === 'openai') return { ...describeTextModel(openAiCard(card)), ...ELSEWHERE }
  const { info } = await describeRemoteModel(remoteCard(card))
  return { info, ...ELSEWHERE, warnings: [] }
}

/** The weights are on other machines. */
const ELSEWHERE = { memoryBytes: 0, fileBytes: null, quantisation: null } as const
