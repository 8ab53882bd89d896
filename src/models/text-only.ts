import type { LocalModelCard } from './card.ts'

/** The card of the same model without its encoders: it is served with text alone. */
export function textOnly({ image, video, audio, ...card }: LocalModelCard): LocalModelCard {
  const { projector: _, ...engine } = card.engine
  const serves: LocalModelCard['serves'] = card.serves.map((served) => {
    return { ...served, modalities: ['text'], outputFormats: ['text'] }
  })
  return { ...card, engine, serves }
}
