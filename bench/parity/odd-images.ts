import type { Size } from '../../src/media/pixels.ts'
import { targetSize } from '../../src/media/resize.ts'
import type { ModelCard } from '../../src/models/card.ts'
import { picture } from '../../test/support/local-engine.ts'
import { type NamedPrompt, turnOf, untrusted } from '../../test/support/tiny-models/prompts.ts'
import type { TinyModel } from '../../test/support/tiny-models/tiny-model.ts'

const ODD: readonly Size[] = [
  { width: 500, height: 333 },
  { width: 37, height: 900 },
  { width: 4000, height: 3000 },
]

/**
 * Prompts with images of odd sizes, as the server hands them to the engine, for models whose images libmtmd cuts or limits
 * in its own way. llama-server gets the same pixels: it would pad the originals.
 * @param card derived from the model's files.
 */
export function oddPrompts(model: TinyModel, { image: limits }: ModelCard): NamedPrompt[] {
  if (limits === undefined || !(limits.tiles || limits.longestEdge)) return []
  return ODD.map((original, index) => {
    const { width, height } = targetSize(original, limits)
    const parts = turnOf(model, picture(width, height, index), untrusted('What is here?'))
    return { name: `${original.width}x${original.height}`, parts }
  })
}
