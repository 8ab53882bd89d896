import { createHash } from 'node:crypto'
import type { ImageTokens } from '../../families/processors/image-processing.ts'
import { invalidRequest } from '../../lib/errors/errors.ts'
import type { RgbImage } from '../../media/pixels.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { ReadPrompt } from './exchange.ts'
import type { PromptText } from './tokens/hub-tokenizer.ts'
import type { LineBreaks } from './tokens/line-breaks.ts'
import type { MarkBreaker } from './tokens/mark-breaker.ts'
import type { TextGuard } from './tokens/text-guard.ts'
import type { Picture } from './wire/wire.ts'

/** A tokenised prompt, or a part of one. */
export interface RemotePrompt extends ReadPrompt {
  /** Including the placeholder of each picture. */
  readonly tokens: readonly number[]
  readonly pictures: readonly Picture[]
}

/** A prompt before tokenisation: texts that are tokenised as one, and the pictures between them. */
export interface PromptLayout {
  readonly texts: readonly (readonly PromptText[])[]
  readonly images: readonly RgbImage[]
}

export interface PictureRule {
  /**
   * The tokens in place of a picture: the part that the server replaces, and the tokens around it. Empty if the server
   * inserts pictures itself.
   */
  readonly placeholder: readonly number[]
  /** Number of placeholder tokens that the server replaces. */
  readonly replaced: number
  /** The number of tokens that replace them. */
  countTokens(image: RgbImage): ImageTokens
  /** If the placeholder is text: removes it from untrusted text. */
  readonly guard: TextGuard | null
  /** Line breaks that the server merges after it has inserted pictures; null if it merges none. */
  readonly lines: LineBreaks | null
  /** For servers that tokenise a prompt with pictures again; null for those that use its tokens as they are. */
  readonly breaker: MarkBreaker | null
}

/**
 * Splits a prompt into texts and pictures.
 * @param param name of the input, for errors.
 * @throws ApiError 400 for media that the model does not accept.
 */
export function layOut(parts: readonly PromptPart[], takesPictures: boolean, param: string): PromptLayout {
  const texts: PromptText[][] = [[]]
  const images: RgbImage[] = []
  for (const part of parts) {
    if (part.type === 'text') {
      texts.at(-1)!.push(part)
      continue
    }
    if (part.type === 'audio') throw invalidRequest('This model does not take audio.', param)
    if (!takesPictures) throw invalidRequest('This model does not take images.', param)
    for (const image of part.type === 'image' ? [part.image] : part.frames) {
      images.push(image)
      texts.push([])
    }
  }
  return { texts, images }
}

/** @param tokens of each of the layout's texts. @param salt of the organisation whose pictures they are. */
export function assemble(
  { images }: Pick<PromptLayout, 'images'>,
  tokens: readonly Int32Array[],
  rule: PictureRule | null,
  salt: string,
): RemotePrompt {
  const all: number[] = []
  const pictures = images.map((image): Picture => ({ key: pictureKey(image, salt), image }))
  for (const [index, text] of tokens.entries()) {
    for (const token of rule?.guard?.(text) ?? text) all.push(token)
    if (images[index] !== undefined) all.push(...rule!.placeholder)
  }
  return harmless(all, pictures, rule)
}

/** Concatenates two prompts. */
export function joined(first: RemotePrompt, second: RemotePrompt, rule: PictureRule | null): RemotePrompt {
  const pictures = [...first.pictures, ...second.pictures]
  return harmless(
    [...first.tokens, ...second.tokens],
    pictures,
    rule,
    first.pictures.length > 0 ? first.tokens.length : 0,
  )
}

/** A prompt and the text generated after it. */
export function continued(prompt: RemotePrompt, written: readonly number[], rule: PictureRule | null): RemotePrompt {
  const tokens = [...prompt.tokens, ...(rule?.guard?.(written) ?? written)]
  return harmless(tokens, prompt.pictures, rule, prompt.tokens.length)
}

/**
 * A prompt that is equivalent on a server that tokenises its text again.
 * @param from number of leading tokens that are known to be harmless together.
 */
function harmless(
  given: readonly number[],
  pictures: readonly Picture[],
  rule: PictureRule | null,
  from = 0,
): RemotePrompt {
  if (rule === null || pictures.length === 0)
    return { tokens: given, pictures, promptTokens: given.length, imageTokens: 0 }
  const tokens = rule.breaker?.broken(given, from) ?? rule.lines?.separated(given) ?? given
  let promptTokens = tokens.length - pictures.length * rule.replaced - (rule.lines?.countJoined(tokens) ?? 0)
  let imageTokens = 0
  for (const { image } of pictures) {
    const counted = rule.countTokens(image)
    promptTokens += counted.prompt
    imageTokens += counted.image
  }
  return { tokens, pictures, promptTokens, imageTokens }
}

/**
 * The same pixels have different keys in different organisations: a cache hit would reveal that another one has them.
 */
export function pictureKey({ width, height, data }: RgbImage, salt: string): string {
  return createHash('sha256').update(`${salt} ${width}x${height} `).update(data).digest('hex')
}
