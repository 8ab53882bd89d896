import type { AudioPart, ImagePart, PromptPart } from '../../../src/inference/engine.ts'
import type { TinyModel } from './tiny-model.ts'

/** A prompt in the engine's parts. It holds no text that only the tokeniser adds, such as the beginning of a text. */
export interface NamedPrompt {
  readonly name: string
  readonly parts: readonly PromptPart[]
}

/** What a model is asked, for each way in which media can stand in a prompt. */
export function promptsOf(model: TinyModel): NamedPrompt[] {
  const prompts = [{ name: 'text', parts: turnOf(model, untrusted('What is here, and where is it?')) }]
  const images = imagesOf(model)
  if (images !== null) {
    const [first, second] = images
    prompts.push(
      { name: 'image', parts: turnOf(model, first, untrusted('What is here?')) },
      { name: 'two images', parts: turnOf(model, first, second, untrusted('What differs?')) },
      { name: 'image between texts', parts: turnOf(model, untrusted('Look at'), second, untrusted('and tell me.')) },
    )
  }
  if (model.audio !== undefined) {
    prompts.push({ name: 'audio', parts: turnOf(model, sound(1), untrusted('What is said?')) })
  }
  return prompts
}

/** A user's turn, up to the beginning of the reply. */
export function turnOf({ turn: [begin, end] }: TinyModel, ...content: readonly PromptPart[]): PromptPart[] {
  return [trusted(begin), ...content, trusted(end)]
}

/** Two images of different content, in sizes that the encoder does not change. */
export function imagesOf({ pictures }: TinyModel): readonly [ImagePart, ImagePart] | null {
  if (pictures === undefined) return null
  const [first, second] = pictures
  return [picture(first.width, first.height, 1), picture(second.width, second.height, 2)]
}

/** A second and a half of a sound of two changing tones. */
export function sound(seed: number): AudioPart {
  const samples = Float32Array.from({ length: 24_000 }, (_, i) => {
    const seconds = i / 16_000
    return (
      0.3 * Math.sin(2 * Math.PI * 220 * seed * seconds * (1 + seconds)) + 0.2 * Math.sin(2 * Math.PI * 1370 * seconds)
    )
  })
  return { type: 'audio', samples }
}

export const trusted = (text: string): PromptPart => ({ type: 'text', text, trusted: true })
export const untrusted = (text: string): PromptPart => ({ type: 'text', text, trusted: false })

function picture(width: number, height: number, seed: number): ImagePart {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * 7 + seed * (i >> 8)) & 255)
  return { type: 'image', image: { width, height, data } }
}
