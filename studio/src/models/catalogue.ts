import { signal } from '@preact/signals'
import { callJson } from '../server/call.ts'
import { type Failure, toFailure } from '../server/failure.ts'

type Use = 'general' | 'documents' | 'grounding' | 'video' | 'audio'
export type Fits = 'yes' | 'tight' | 'no'

/** A model that Lookout can fetch, as it would run on the server's machine. */
export interface CatalogueModel {
  readonly title: string
  readonly maker: string
  readonly repository: string
  readonly uses: readonly Use[]
  readonly summary: string
  readonly languages: string | null
  readonly tools: boolean
  readonly thinks: 'no' | 'optional' | 'always'
  /** What a model of one task was trained to be asked. */
  readonly prompt: string | null
  readonly quant: string
  readonly bytes: number
  readonly memory_bytes: number
  readonly fits: Fits
  readonly tokens_per_second: number | null
  readonly licence: {
    readonly name: string
    readonly commercial_use: 'yes' | 'limited' | 'no' | 'unknown'
    readonly meaning: string
  }
  readonly modalities: readonly string[]
  readonly max_context_tokens: number | null
  readonly places: {
    readonly draws: readonly string[]
    readonly notation: string
    readonly exactness: string | null
  } | null
  readonly scores: readonly {
    readonly benchmark: string
    readonly value: number
    readonly setting: string | null
    readonly source: string
  }[]
  readonly faults: readonly string[]
  /** Null for models that the project has never run. */
  readonly tried: { readonly on: string; readonly verdict: string } | null
  /** Id of the model where the server has it. */
  readonly served_as: string | null
}

interface Catalogue {
  /** Date on which the facts were looked up. */
  readonly checked: string
  readonly available_bytes: number
  /** Best for the machine first. */
  readonly data: readonly CatalogueModel[]
}

export const catalogue = signal<Catalogue | null>(null)
export const catalogueFailure = signal<Failure | null>(null)

export const FITS: Readonly<Record<Fits, string>> = { yes: 'fits', tight: 'fits tightly', no: 'too large' }

/** What models are good for, in the order of the filter. */
export const USES = [
  { value: 'general', title: 'General' },
  { value: 'documents', title: 'Documents' },
  { value: 'grounding', title: 'Boxes' },
  { value: 'video', title: 'Video' },
  { value: 'audio', title: 'Sound' },
] as const satisfies readonly { readonly value: Use; readonly title: string }[]

export async function loadCatalogue(): Promise<void> {
  try {
    catalogue.value = await callJson<Catalogue>('/v1/models/catalogue')
    catalogueFailure.value = null
  } catch (error) {
    catalogueFailure.value = toFailure(error)
  }
}
