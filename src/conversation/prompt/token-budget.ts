import type { ServedModel } from '../../inference/catalog/registry.ts'
import { contextLimit, promptProblem } from '../../inference/contract/context-length.ts'
import type { CountOptions } from '../../inference/contract/engine.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import { type ApiError, invalidRequest, say } from '../../lib/errors/errors.ts'
import type { Param } from '../../lib/errors/param.ts'
import { sumOf } from '../../lib/sum.ts'
import { promptAudioTokens, SAMPLE_RATE } from '../../media/audio-tokens.ts'
import type { ModelCard } from '../../models/card.ts'
import type { ReplyOptions } from '../request/reply-options.ts'

/** The model and the request for which tokens are counted. */
interface CountScope extends CountOptions {
  readonly model: ServedModel
}

/** A prompt, or a part of one. Its tokens are counted on first use, and only once. */
export class MeasuredPrompt {
  readonly parts: readonly PromptPart[]
  /** An upper bound of the prompt's tokens. */
  readonly mostTokens: number
  readonly #scope: CountScope
  #tokens: Promise<number> | null = null

  constructor(parts: readonly PromptPart[], scope: CountScope) {
    this.parts = parts
    this.mostTokens = mostTokens(parts, scope.model)
    this.#scope = scope
  }

  countTokens(): Promise<number> {
    this.#tokens ??= this.#scope.model.engine.countTokens(this.parts, this.#scope)
    return this.#tokens
  }
}

/** The output limit that a client requests, and the parameter that sets it. */
export type AskedTokens = Pick<ReplyOptions, 'maxTokens' | 'maxTokensParam' | 'clampsTokens'>

/** The share of the context that a reply gets if an estimate leaves none: the prompt may have fewer tokens. */
const LEAST_PART = 1 / 8

/** The default limit of a reply. */
export const AS_MANY_AS_FIT: AskedTokens = { maxTokens: null, maxTokensParam: 'max_completion_tokens' }

/**
 * Returns the maximum tokens of one completion. A limit that the client requests must fit in the context with the prompt,
 * unless it is only a bound. Without one, the completion may use all the remaining space.
 *
 * @param prompt its parts, in order.
 * @throws ApiError 400 when they do not fit; it names `param` when the prompt alone is too long.
 */
export async function outputBudget(
  prompt: readonly MeasuredPrompt[],
  { maxTokens: asked, maxTokensParam, clampsTokens = false }: AskedTokens,
  model: ServedModel,
  param: Param,
): Promise<number> {
  const wanted = Math.min(asked ?? model.outputTokens, clampsTokens ? model.outputTokens : Number.POSITIVE_INFINITY)
  // Most prompts are so short that their upper bound fits. Only the others are counted.
  const most = sumOf(prompt, ({ mostTokens }) => mostTokens)
  if (most + Math.max(1, wanted) <= model.contextTokens) return wanted
  const texts = prompt.flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])))
  if (leastTokens(texts, model) > model.contextTokens) throw contextExceeded(model, param)
  const left = await roomAfter(prompt, model)
  const promptTokens = model.contextTokens - left
  if (left < 1) throw contextExceeded(model, param, promptTokens)
  if (wanted <= left) return wanted
  if (asked === null || clampsTokens) return left
  if (model.engine.info.estimatesTokens) return wanted
  throw invalidRequest(
    say`The prompt of ${promptTokens} tokens leaves no room for ${[maxTokensParam]} ${asked}: ${contextLimit(model.contextTokens)}`,
    maxTokensParam,
    { code: 'context_length_exceeded' },
  )
}

/** The tokens that a prompt leaves for a reply; less than 1 if it does not fit. */
export async function roomAfter(prompt: readonly MeasuredPrompt[], model: ServedModel): Promise<number> {
  const counts = await Promise.all(prompt.map((part) => part.countTokens()))
  const left = model.contextTokens - sumOf(counts, (count) => count)
  return left < 1 && model.engine.info.estimatesTokens ? Math.ceil(model.contextTokens * LEAST_PART) : left
}

/** A lower bound of the texts' tokens, computed without the tokeniser. */
export function leastTokens(texts: Iterable<string>, { engine }: Pick<ServedModel, 'engine'>): number {
  let bytes = 0
  for (const text of texts) bytes += Buffer.byteLength(text)
  return bytes / engine.info.longestTokenBytes
}

/** An upper bound of the parts' tokens: a text has at most one token per byte. */
function mostTokens(parts: readonly PromptPart[], { card }: ServedModel): number {
  const most = (part: PromptPart) => {
    switch (part.type) {
      case 'text':
        return part.tokens?.length ?? Buffer.byteLength(part.text)
      case 'image':
        return mostImageTokens(card)
      case 'frames':
        return part.frames.length * (withRowEnds(card.video?.maxTokens ?? 0, card) + MEDIA_FRAME_TOKENS)
      case 'audio':
        return mostAudioTokens(part.samples.length, card)
    }
  }
  return sumOf(parts, most)
}

function mostImageTokens(card: ModelCard): number {
  const { maxTokens = 0, tiles } = card.image ?? {}
  const around = tiles ? Math.ceil(maxTokens / tiles.tokens) * TILE_FRAME_TOKENS : 0
  return withRowEnds(maxTokens, card) + around + MEDIA_FRAME_TOKENS
}

/** Adds an upper bound for row-end tokens: a row has at least one token. */
function withRowEnds(tokens: number, { image }: ModelCard): number {
  return image?.rowEnds ? 2 * tokens : tokens
}

/** Encoders round up to a whole second, and some use slightly more tokens than the card says. */
function mostAudioTokens(samples: number, { audio }: ModelCard): number {
  const tokens = audio === undefined ? 0 : promptAudioTokens(samples + SAMPLE_RATE, audio)
  return Math.ceil(tokens * 1.1) + MEDIA_FRAME_TOKENS
}

/** An allowance for the tokens that an engine adds around media. */
const MEDIA_FRAME_TOKENS = 16
/** An allowance for each tile: a vocabulary may lack the marks of its row and column. */
const TILE_FRAME_TOKENS = 48

/** @param promptTokens infinite when the tokens were not counted. */
export function contextExceeded(model: ServedModel, param: Param, promptTokens = Number.POSITIVE_INFINITY): ApiError {
  return invalidRequest(promptProblem(promptTokens, model.contextTokens), param, { code: 'context_length_exceeded' })
}
