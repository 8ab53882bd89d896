import { DIALECTS } from '../grounding/index.ts'
import { CardError, type ModelCard, type ServedId } from '../models/card.ts'
import type { Engine } from './engine.ts'

/** One id under which a loaded model is served. */
export interface ServedModel {
  readonly id: string
  readonly served: ServedId
  readonly card: ModelCard
  readonly engine: Engine
  /** Tokens of prompt and completion together. */
  readonly contextTokens: number
  /** Tokens of one completion. */
  readonly outputTokens: number
}

/** The models that are served, by every id that a client may send. */
export class ModelRegistry {
  readonly #models: ServedModel[] = []
  readonly #byId = new Map<string, ServedModel>()

  /** @throws CardError when an id is taken or the card promises what cannot be kept. */
  add(card: ModelCard, engine: Engine): void {
    for (const [index, served] of card.serves.entries()) {
      checkPromises(card, index, engine)
      const contextTokens = Math.min(served.maxContextTokens, engine.info.contextTokens)
      const outputTokens = Math.min(served.maxOutputTokens, contextTokens)
      const model = { id: served.id, served, card, engine, contextTokens, outputTokens }
      for (const id of [served.id, ...served.aliases]) {
        const other = this.#byId.get(id)
        if (other) throw new CardError(card.file, `serves[${index}]`, `'${id}' is served by ${other.card.file} already`)
        this.#byId.set(id, model)
      }
      this.#models.push(model)
    }
  }

  find(id: string): ServedModel | undefined {
    return this.#byId.get(id)
  }

  /** In the order of the cards; aliases are not listed. */
  list(): readonly ServedModel[] {
    return this.#models
  }

  /**
   * Whether some engine takes work now; one that is not loaded does, and is loaded for it. A model that is down does not
   * take the others from those who use them.
   */
  get ready(): boolean {
    return this.#models.some(({ engine: { state } }) => state !== 'restarting' && state !== 'closed')
  }
}

function checkPromises(card: ModelCard, index: number, engine: Engine): void {
  const served = card.serves[index]!
  const refuse = (field: string, promise: string) => {
    throw new CardError(card.file, `serves[${index}].${field}`, `${promise} is more than this server can keep`)
  }
  const { image, audio } = engine.info.modalities
  for (const [modality, encoder] of [
    ['image', image],
    ['video', image],
    ['audio', audio],
  ] as const) {
    if (!served.modalities.includes(modality) || (card[modality] && encoder)) continue
    refuse('modalities', `'${modality}', without its encoder and the card's limits of it,`)
  }
  const { dialect } = card
  const formats = dialect === null ? [] : DIALECTS[dialect].formats
  const unspoken = served.outputFormats.find((format) => format !== 'text' && !formats.includes(format))
  const speaker = dialect === null ? 'a model without a dialect' : `the dialect '${dialect}'`
  if (unspoken) refuse('outputFormats', `'${unspoken}', which ${speaker} cannot say,`)
  if (served.reasoning && !card.thought)
    refuse('reasoning', "reasoning, without 'thought' to say how thoughts are marked,")
  if (served.capabilities.includes('tool_calling') && !card.toolSyntax) {
    refuse('capabilities', "'tool_calling', without 'toolSyntax' to say how calls are written,")
  }
}
