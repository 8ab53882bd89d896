import { DIALECTS } from '../../grounding/dialects/dialects.ts'
import { CardError, type ModelCard } from '../../models/card.ts'
import { PLAIN } from '../../templates/built-in.ts'
import { JinjaTemplate } from '../../templates/jinja/template.ts'
import { takesCalls } from '../../templates/probe.ts'
import { readTraits, type TemplateTraits } from '../../templates/traits.ts'
import type { ModelInfo } from './engine.ts'

/**
 * Checks that a model's files match the card.
 * @param info from their headers, or from the loaded model.
 * @throws CardError
 */
export function checkFiles(card: ModelCard, { contextTokens, modalities }: ModelInfo): void {
  for (const [index, { maxContextTokens }] of card.serves.entries()) {
    if (maxContextTokens <= contextTokens) continue
    throw new CardError(
      card.file,
      `serves[${index}].maxContextTokens`,
      `promises ${maxContextTokens} context tokens, but the engine has ${contextTokens} (the lower of ` +
        "engine.contextTokens and the model's trained context)",
    )
  }
  if (card.image !== undefined && !modalities.image) {
    throw new CardError(card.file, 'image', "the card has image limits, but the model's files contain no image encoder")
  }
}

/**
 * Checks that a card promises clients nothing that the model or the card lacks. An engine may have less context than
 * the card says; clients are told the actual size.
 * @throws CardError
 */
export function checkPromises(card: ModelCard, info: ModelInfo): void {
  for (const index of card.serves.keys()) checkServed(card, index, info)
  checkTemplate(card, info)
}

function checkServed(card: ModelCard, index: number, info: ModelInfo): void {
  const served = card.serves[index]!
  const reject = (field: string, problem: string) => {
    throw new CardError(card.file, `serves[${index}].${field}`, problem)
  }
  const { image, audio } = info.modalities
  for (const [modality, encoder] of [
    ['image', image],
    ['video', image],
    ['audio', audio],
  ] as const) {
    if (!served.modalities.includes(modality) || (card[modality] && encoder)) continue
    reject('modalities', `'${modality}' needs an encoder in the model's files and '${modality}' limits in the card`)
  }
  const problem = embeddingProblem(card, served.capabilities)
  if (problem !== null) reject('capabilities', problem)
  const { dialect } = card
  const formats = dialect === null ? [] : DIALECTS[dialect].formats
  const unsupported = served.outputFormats.find((format) => format !== 'text' && !formats.includes(format))
  const owner = dialect === null ? 'a model without a dialect' : `the dialect '${dialect}'`
  if (unsupported) reject('outputFormats', `'${unsupported}' is not supported by ${owner}`)
  if (served.reasoning && !card.thought)
    reject('reasoning', "reasoning needs 'thought' in the card, which says how thoughts are marked")
  if (served.capabilities.includes('tool_calling') && !card.toolSyntax) {
    reject('capabilities', "'tool_calling' needs 'toolSyntax' in the card, which says how calls are written")
  }
}

/**
 * Why a model lacks a capability that an id promises; null if it has all of them. Models that make text and models that
 * make embeddings or scores exclude each other.
 */
function embeddingProblem({ embedding }: ModelCard, capabilities: readonly string[]): string | null {
  const made = capabilities.filter((one) => one === 'embeddings' || one === 'rerank')
  if (embedding === undefined)
    return made.length === 0 ? null : `'${made[0]}' needs a model with 'embedding' in its card`
  const { pooling } = embedding
  const only = pooling === undefined ? (made[0] ?? 'embeddings') : pooling === 'rank' ? 'rerank' : 'embeddings'
  return capabilities.length === 1 && made[0] === only ? null : `must be ["${only}"], which is all that this model does`
}

/** Any model with a tool syntax may get the server's own focus tool, so its template must render tools. */
function checkTemplate(card: ModelCard, info: ModelInfo): void {
  const field = 'engine.chatTemplate'
  let rendersTools: boolean
  try {
    rendersTools = takesCalls(info.templateTraits ?? ownTraits(info), card.toolSyntax)
  } catch (error) {
    const { message, cause } = error as Error
    const reason = cause instanceof Error ? `${message}: ${cause.message}` : message
    throw new CardError(card.file, field, `the chat template cannot be used: ${reason}`, { cause: error })
  }
  if (card.toolSyntax === undefined || rendersTools) return
  throw new CardError(card.file, field, "the card has a 'toolSyntax', but the chat template does not render tools")
}

function ownTraits({ chatTemplate }: ModelInfo): TemplateTraits {
  const template = new JinjaTemplate(chatTemplate ?? PLAIN)
  return readTraits((variables) => template.render(variables))
}
