import type { AudioPart, ImagePart, PromptPart } from '../../../src/inference/contract/parts.ts'
import type { TinyModel } from './tiny-model.ts'

/** A prompt in the engine's parts. It holds no text that only the tokeniser adds, such as the beginning of a text. */
export interface NamedPrompt {
  readonly name: string
  readonly parts: readonly PromptPart[]
}

/** What a model is asked, for each way in which media can stand in a prompt. */
export function promptsOf(model: TinyModel): NamedPrompt[] {
  const text = { name: 'text', parts: turnOf(model, untrusted('What is here, and where is it?')) }
  const media = mediaOf(model)
  if (media === null) return [text]
  const [first, second] = media
  return [
    text,
    { name: 'image or sound', parts: turnOf(model, first, untrusted('What is here?')) },
    { name: 'two of them', parts: turnOf(model, first, second, untrusted('What differs?')) },
    { name: BETWEEN_TEXTS, parts: turnOf(model, untrusted('Look at'), second, untrusted('and tell me.')) },
  ]
}

export const BETWEEN_TEXTS = 'between texts'

/** A user's turn, up to the beginning of the reply. */
export function turnOf({ turn: [begin, end] }: TinyModel, ...content: readonly PromptPart[]): PromptPart[] {
  return [trusted(begin), ...content, trusted(end)]
}

/** Two images of different content, in sizes that the encoder does not change; or two sounds. Null for text alone. */
export function mediaOf({
  pictures,
  audio,
}: TinyModel): readonly [ImagePart | AudioPart, ImagePart | AudioPart] | null {
  if (audio !== undefined) return [sound(1), sound(2)]
  if (pictures === undefined) return null
  const [first, second] = pictures
  return [picture(first.width, first.height, 1), picture(second.width, second.height, 2)]
}

const SECONDS = 20
const SAMPLES_PER_SECOND = 16_000

/** A sound whose pitch and loudness change all the time. */
function sound(seed: number): AudioPart {
  const samples = new Float32Array(SECONDS * SAMPLES_PER_SECOND).map((_, i) => {
    const seconds = i / SAMPLES_PER_SECOND
    const loudness = Math.sin(2 * Math.PI * 0.7 * seed * seconds) ** 2
    const rising = Math.sin(2 * Math.PI * (150 + 900 * (seed - 1) + 40 * seconds) * seconds)
    return loudness * (0.5 * rising + 0.3 * Math.sin(2 * Math.PI * 1370 * seed * seconds))
  })
  return { type: 'audio', samples }
}

export const trusted = (text: string): PromptPart => ({ type: 'text', text, trusted: true })
export const untrusted = (text: string): PromptPart => ({ type: 'text', text, trusted: false })

function picture(width: number, height: number, seed: number): ImagePart {
  const data = new Uint8Array(width * height * 3).map((_, i) => (i * 7 + seed * (i >> 8)) & 255)
  return { type: 'image', image: { width, height, data } }
}
