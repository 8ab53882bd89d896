import type { OpenAiModelCard } from '../../models/card.ts'
import { CardError } from '../../models/card-error.ts'
import { ENFORCED, TEXT_THOUGHT, TEXT_TOOL_SYNTAX } from '../../models/text-card.ts'
import { CHATML } from '../../templates/chatml.ts'
import { checkFiles } from '../contract/card-checks.ts'
import type { ModelInfo } from '../contract/engine.ts'

export interface TextModel {
  readonly info: ModelInfo
  /** Warnings for the operator, one line each. */
  readonly warnings: readonly string[]
}

/**
 * Reads the description of a model on OpenAI-compatible servers from its card.
 * @throws CardError for a card that promises something that its servers do not support.
 */
export function describeTextModel(card: OpenAiModelCard): TextModel {
  const reject = (field: string, problem: string): never => {
    throw new CardError(card.file, field, problem)
  }
  const { constraints, contextTokens } = card.engine
  if (card.audio !== undefined) reject('audio', 'OpenAI-compatible servers are not asked about sound: leave it out')
  if (card.video !== undefined && card.video.layout.framesPerGrid !== 1)
    reject('video.layout.framesPerGrid', 'must be 1: the servers take the frames of a video as images')
  if (card.toolSyntax !== undefined && card.toolSyntax !== TEXT_TOOL_SYNTAX)
    reject('toolSyntax', `must be '${TEXT_TOOL_SYNTAX}': that is how the model is told to write calls`)
  if (card.thought !== undefined && card.thought.end !== TEXT_THOUGHT.end)
    reject('thought', 'must be left out: the servers separate thoughts from replies')
  for (const [index, { capabilities }] of card.serves.entries()) {
    const free = ['tool_calling', 'embeddings', 'rerank']
    const lacking = capabilities.find((one) => !free.includes(one) && !ENFORCED[constraints].includes(one))
    if (lacking === undefined) continue
    reject(`serves[${index}].capabilities`, `'${lacking}' needs servers that are held to it; see engine.constraints`)
  }
  const embeds = card.embedding !== undefined
  const info: ModelInfo = {
    contextTokens,
    longestTokenBytes: Number.POSITIVE_INFINITY,
    estimatesTokens: true,
    chatTemplate: embeds ? null : CHATML,
    bosToken: '',
    eosToken: '',
    modalities: { image: card.image !== undefined, audio: false },
    ...(embeds ? { embedding: { dimensions: null } } : {}),
  }
  checkFiles(card, info)
  if (embeds) return { info, warnings: [] }
  const warning = `${card.file}: engine.trustedTemplate is false: the servers apply a template of their own, and what a client writes may be read there as one of its marks`
  return { info, warnings: [warning] }
}
