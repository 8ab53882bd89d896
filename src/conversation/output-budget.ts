import { type ApiError, invalidRequest } from '../errors.ts'
import type { PromptPart } from '../inference/engine.ts'
import { SAMPLE_RATE } from '../media/index.ts'
import type { ModelCard } from '../models/card.ts'
import type { ServedModel } from '../models/registry.ts'

/** A prompt, or a part of one, whose tokens are counted once, and only when they are needed. */
export class MeasuredPrompt {
  readonly parts: readonly PromptPart[]
  /** The prompt costs no more than this. */
  readonly mostTokens: number
  readonly #model: ServedModel
  #tokens: Promise<number> | null = null

  constructor(parts: readonly PromptPart[], model: ServedModel) {
    this.parts = parts
    this.mostTokens = mostTokens(parts, model)
    this.#model = model
  }

  countTokens(): Promise<number> {
    this.#tokens ??= this.#model.engine.countTokens(this.parts)
    return this.#tokens
  }
}

/**
 * Most tokens of one completion. What a client asks for by number must fit beside the prompt; what it leaves open is as
 * much as fits.
 *
 * @param prompt its pieces, one after the other.
 * @throws ApiError 400 when that is too much, naming `param` if the prompt alone is.
 */
export async function outputBudget(
  prompt: readonly MeasuredPrompt[],
  asked: number | null,
  model: ServedModel,
  param: string,
): Promise<number> {
  const wanted = asked ?? model.outputTokens
  // Most prompts are so short that they fit whatever they cost; the others are counted.
  const most = prompt.reduce((sum, piece) => sum + piece.mostTokens, 0)
  if (most + Math.max(1, wanted) <= model.contextTokens) return wanted
  const counts = await Promise.all(prompt.map((piece) => piece.countTokens()))
  const promptTokens = counts.reduce((sum, count) => sum + count, 0)
  const left = model.contextTokens - promptTokens
  if (left < 1) throw contextExceeded(model, param, promptTokens)
  if (wanted <= left) return wanted
  if (asked === null) return left
  throw invalidRequest(
    `The prompt of ${promptTokens} tokens and max_completion_tokens ${asked} exceed the context of ${model.contextTokens} tokens`,
    'max_completion_tokens',
  )
}

/** No tokeniser makes more tokens of a text than it has bytes. */
function mostTokens(parts: readonly PromptPart[], { card }: ServedModel): number {
  const most = (part: PromptPart) => {
    switch (part.type) {
      case 'text':
        return Buffer.byteLength(part.text)
      case 'image':
        return (card.image?.maxTokens ?? 0) + MEDIA_FRAME_TOKENS
      case 'frames':
        return part.frames.length * ((card.video?.maxTokens ?? 0) + MEDIA_FRAME_TOKENS)
      case 'audio':
        return mostAudioTokens(part.samples.length, card)
    }
  }
  return parts.reduce((sum, part) => sum + most(part), 0)
}

/** Encoders round up to a second, and some count a little more than the card. */
function mostAudioTokens(samples: number, { audio }: ModelCard): number {
  return Math.ceil((samples / SAMPLE_RATE + 1) * (audio?.tokensPerSecond ?? 0) * 1.1) + MEDIA_FRAME_TOKENS
}

/** Room for the tokens that an engine puts around media. */
const MEDIA_FRAME_TOKENS = 16

export function contextExceeded(model: ServedModel, param: string, promptTokens?: number): ApiError {
  const size = promptTokens === undefined ? '' : ` of ${promptTokens} tokens`
  return invalidRequest(`The prompt${size} exceeds the context of ${model.contextTokens} tokens`, param)
}
