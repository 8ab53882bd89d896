import type { GgufMetadata } from '../../families/gguf.ts'
import type { TemplateFindings } from '../../templates/probe.ts'
import { CardError } from '../card-error.ts'
import { probeGuarded, TemplateError } from '../read/model-reader.ts'
import type { CardFolder } from '../read/weight-files.ts'
import { builtInWarning, chooseBuiltIn, chooseTemplate, templateFailure } from './chosen-template.ts'

/** What a model's chat template shows about the model. */
export interface TemplateReading extends TemplateFindings {
  /** The built-in template that replaces the model's own, as a card names it. */
  readonly builtIn?: string
  /** Why the template was chosen. */
  readonly origin: string
}

/**
 * Probes the chat template that a card names or that is in the weights. If there is none that can be used, a built-in
 * one replaces it; then nothing is known about the model's tools and thoughts.
 * @param given `engine.chatTemplate` of the card.
 * @throws CardError when the template that the card names cannot be used, and for one that ended its process: a model
 * that may be crafted to end a server is not served with another template either.
 */
export async function deriveTemplate(
  given: string | undefined,
  language: GgufMetadata,
  place: CardFolder,
): Promise<TemplateReading> {
  const chosen = await chooseTemplate(given, language, place)
  if (chosen.builtIn !== null && given === undefined) {
    const warning = builtInWarning(chosen)
    const warnings = warning === null ? [] : [warning]
    return { ...NOTHING, builtIn: chosen.builtIn, origin: chosen.origin, warnings }
  }
  try {
    return { ...(await probeGuarded(chosen.source)).findings, origin: chosen.origin }
  } catch (error) {
    if (!(error instanceof TemplateError)) throw templateFailure(error as Error, place)
    if (given !== undefined) throw new CardError(place.file, 'engine.chatTemplate', `${given}: ${error.message}`)
    const { builtIn, origin } = chooseBuiltIn(language, place)
    const warning = `the model's own chat template cannot be used, so it gets '${builtIn}': ${error.message}`
    return { ...NOTHING, builtIn: builtIn!, origin, warnings: [warning] }
  }
}

const NOTHING = { toolSyntax: null, thought: null } as const
