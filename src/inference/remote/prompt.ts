import { createHash } from 'node:crypto'
import { invalidRequest } from '../../lib/errors.ts'
import type { RgbImage } from '../../media/pixels.ts'
import type { PictureMarks } from '../../models/hugging-face.ts'
import type { PromptPart } from '../engine.ts'
import type { ReadPrompt } from './exchange.ts'
import type { PromptText } from './tokens/hub-tokenizer.ts'
import type { MarkBreaker } from './tokens/mark-breaker.ts'
import type { Picture } from './wire/wire.ts'

/** A tokenised prompt, or a part of one. */
export interface RemotePrompt extends ReadPrompt {
  /** With one token in place of each picture. */
  readonly tokens: readonly number[]
  readonly pictures: readonly Picture[]
}

/** A prompt that is not tokenised yet: texts that are read as one, and the pictures between them. */
export interface PromptLayout {
  readonly texts: readonly (readonly PromptText[])[]
  readonly images: readonly RgbImage[]
}

export interface PictureRule {
  readonly marks: PictureMarks
  /** Side in pixels of the square that one token covers. */
  readonly pixelsPerToken: number
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
  let imageTokens = 0
  const pictures = images.map((image): Picture => ({ key: pictureKey(image, salt), image }))
  for (const [index, text] of tokens.entries()) {
    for (const token of text) all.push(token)
    const image = images[index]
    if (image === undefined) continue
    const { marks, pixelsPerToken } = rule!
    all.push(marks.begin, marks.picture, marks.end)
    imageTokens += (image.width / pixelsPerToken) * (image.height / pixelsPerToken)
  }
  return harmless(
    { tokens: all, pictures, imageTokens, promptTokens: all.length - pictures.length + imageTokens },
    rule,
  )
}

/** One prompt after the other. */
export function joined(first: RemotePrompt, second: RemotePrompt, rule: PictureRule | null): RemotePrompt {
  const both = {
    tokens: [...first.tokens, ...second.tokens],
    pictures: [...first.pictures, ...second.pictures],
    promptTokens: first.promptTokens + second.promptTokens,
    imageTokens: first.imageTokens + second.imageTokens,
  }
  return harmless(both, rule, first.pictures.length > 0 ? first.tokens.length : 0)
}

/**
 * A prompt that means the same to a server that reads its text again.
 * @param from how many of its tokens are known to be harmless among themselves.
 */
export function harmless(prompt: RemotePrompt, rule: PictureRule | null, from = 0): RemotePrompt {
  if (rule === null || rule.breaker === null || prompt.pictures.length === 0) return prompt
  const tokens = rule.breaker.broken(prompt.tokens, from)
  return { ...prompt, tokens, promptTokens: prompt.promptTokens + tokens.length - prompt.tokens.length }
}

/** The same pixels of another organisation have another key: a cache hit would tell that somebody has them. */
export function pictureKey({ width, height, data }: RgbImage, salt: string): string {
  return createHash('sha256').update(`${salt} ${width}x${height} `).update(data).digest('hex')
}
