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
  /** With the placeholder of each picture. */
  readonly tokens: readonly number[]
  readonly pictures: readonly Picture[]
}

/** A prompt that is not tokenised yet: texts that are read as one, and the pictures between them. */
export interface PromptLayout {
  readonly texts: readonly (readonly PromptText[])[]
  readonly images: readonly RgbImage[]
}

export interface PictureRule {
  /** In place of a picture: what the server replaces, and the tokens around it. Without tokens, it inserts pictures itself. */
  readonly placeholder: readonly number[]
  /** How many tokens of the placeholder the server replaces. */
  readonly replaced: number
  /** The tokens that it puts there. */
  countTokens(image: RgbImage): ImageTokens
  /** Where the placeholder is a text: keeps it out of what others write. */
  readonly guard: TextGuard | null
  /** Line breaks that the server joins, once pictures are in the prompt; null where it joins none. */
  readonly lines: LineBreaks | null
  /** For servers that read a prompt with pictures again; null for those that take its tokens as they are. */
  readonly breaker: MarkBreaker | null
}

/**
 * Separates a prompt into texts and pictures.
 * @param param name of the input, for errors.
 * @throws ApiError 400 for media that the model does not take.
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

/** One prompt after the other. */
export function joined(first: RemotePrompt, second: RemotePrompt, rule: PictureRule | null): RemotePrompt {
  const pictures = [...first.pictures, ...second.pictures]
  return harmless(
    [...first.tokens, ...second.tokens],
    pictures,
    rule,
    first.pictures.length > 0 ? first.tokens.length : 0,
  )
}

/** A prompt and what has been written behind it. */
export function continued(prompt: RemotePrompt, written: readonly number[], rule: PictureRule | null): RemotePrompt {
  const tokens = [...prompt.tokens, ...(rule?.guard?.(written) ?? written)]
  return harmless(tokens, prompt.pictures, rule, prompt.tokens.length)
}

/**
 * A prompt that means the same to a server that reads its text again.
 * @param from how many of its tokens are known to be harmless among themselves.
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

/** The same pixels of another organisation have another key: a cache hit would tell that somebody has them. */
export function pictureKey({ width, height, data }: RgbImage, salt: string): string {
  return createHash('sha256').update(`${salt} ${width}x${height} `).update(data).digest('hex')
}
