import type { CatalogueEntry } from './catalogue-schema.ts'
import type { EntryFit } from './machine-fit.ts'

/** A model of this server, as its card describes it. */
export interface NamedModel {
  readonly id: string
  readonly aliases: readonly string[]
  /** `hf:user/repo@<commit>` for a model from the hub. */
  readonly source: string | null
}

/**
 * The id of an entry's model among those of this server, found by its short name or else by its repository; null if
 * absent.
 */
export function idOfEntry({ name, repository }: CatalogueEntry, models: readonly NamedModel[]): string | null {
  const named = models.find(({ id, aliases }) => id === name || aliases.includes(name))
  const prefix = `hf:${repository}@`.toLowerCase()
  return (named ?? models.find(({ source }) => source?.toLowerCase().startsWith(prefix)))?.id ?? null
}

/** An entry in the output of `GET /v1/models/catalogue` and `lookout pull --json`. */
export function toCatalogueModel({ entry, ...fit }: EntryFit, servedAs: string | null) {
  const { name, title, maker, repository, uses, summary, languages, tools, thinks, prompt, licence, tried } = entry
  return {
    ...{ name, title, maker, repository, uses, summary },
    quant: fit.quantisation,
    bytes: fit.bytes,
    memory_bytes: Math.round(fit.memory),
    fits: fit.fits,
    tokens_per_second: rounded(fit.speed?.tokensPerSecond),
    prompt_tokens_per_second: rounded(fit.speed?.promptTokensPerSecond),
    licence: { name: licence.name, commercial_use: licence.commercialUse, meaning: licence.meaning },
    modalities: entry.takes,
    languages,
    max_context_tokens: entry.contextTokens,
    ...{ tools, thinks },
    places: entry.places,
    prompt,
    scores: entry.scores,
    faults: entry.faults.map(({ fault }) => fault),
    tried: tried === 'never' ? null : tried,
    served_as: servedAs,
  }
}

/** Two significant digits, because it is an estimate. */
function rounded(rate: number | undefined): number | null {
  return rate === undefined ? null : Number(rate.toPrecision(2))
}
