import { DIALECTS } from '../grounding/index.ts'
import type { Engine } from '../inference/engine.ts'
import type { ModelCard, ServedId } from './card.ts'

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

/** What this server can do for a model; a card that promises more is refused at start, not at the first request. */
const KEPT_PROMISES = {
  capabilities: ['response_format_json_schema', 'regex', 'tool_calling'] as readonly string[],
  modalities: ['text', 'image'] as readonly string[],
  outputFormats: ['text', 'point', 'box', 'polygon', 'clip'] as readonly string[],
}

/** The models that are served, by every id that a client may send. */
export class ModelRegistry {
  readonly #models: ServedModel[] = []
  readonly #byId = new Map<string, ServedModel>()

  /** @throws Error when an id is taken or the card promises what cannot be kept. */
  add(card: ModelCard, engine: Engine): void {
    for (const served of card.serves) {
      checkPromises(card, served, engine)
      const contextTokens = Math.min(served.maxContextTokens, engine.info.contextTokens)
      const outputTokens = Math.min(served.maxOutputTokens, contextTokens)
      const model = { id: served.id, served, card, engine, contextTokens, outputTokens }
      for (const id of [served.id, ...served.aliases]) {
        if (this.#byId.has(id)) throw new Error(`Model id '${id}' is served twice`)
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

  /** Whether every engine takes work now. */
  get ready(): boolean {
    return this.#models.every((model) => model.engine.state === 'ready')
  }
}

function checkPromises(card: ModelCard, served: ServedId, engine: Engine): void {
  const refuse = (promise: string) => {
    throw new Error(`Model card '${card.name}': ${served.id} promises ${promise}: this server cannot keep that`)
  }
  for (const kind of ['capabilities', 'modalities', 'outputFormats'] as const) {
    const broken = served[kind].find((promise) => !KEPT_PROMISES[kind].includes(promise))
    if (broken) refuse(`'${broken}' (${kind})`)
  }
  const { formats } = DIALECTS[card.dialect]
  const unspoken = served.outputFormats.find((format) => format !== 'text' && !formats.includes(format))
  if (unspoken) refuse(`'${unspoken}', which the dialect '${card.dialect}' cannot say`)
  if (served.reasoning && !card.thought) refuse("reasoning without saying how thoughts are marked ('thought')")
  if (served.capabilities.includes('tool_calling') && !card.toolSyntax) {
    refuse("tool_calling without saying how calls are written ('toolSyntax')")
  }
  if (served.modalities.includes('image') && !(card.image && engine.info.modalities.image)) refuse('images')
}
