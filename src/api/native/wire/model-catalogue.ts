import { z } from 'zod'
import { catalogueEntry } from '../../../catalogue/catalogue-schema.ts'
import { responses } from '../../http/wire/components.ts'

const bytes = z.int().min(0)
const rate = z.number().min(0)

const { name, title, maker, repository, uses, summary, languages, tools, thinks, prompt } = catalogueEntry.shape

const licence = responses.object('CatalogueLicence', {
  name: z.string(),
  commercial_use: z.enum(['yes', 'limited', 'no', 'unknown']),
  meaning: z.string(),
})

const places = responses.object('CataloguePlaces', {
  draws: z.array(z.enum(['point', 'box', 'polygon'])),
  notation: z.string(),
  exactness: z.string().nullable(),
})

const score = responses.object('CatalogueScore', {
  benchmark: z.string(),
  value: z.number(),
  setting: z.string().nullable(),
  source: z.string(),
})

const trial = responses.object('CatalogueTrial', { on: z.string(), verdict: z.string() })

const catalogueModel = responses.object('CatalogueModel', {
  ...{ name, title, maker, repository, uses, summary, languages, tools, thinks, prompt },
  quant: z.string().describe('The quantisation chosen for this machine.'),
  bytes: bytes.describe('Size of the download, including the encoder.'),
  memory_bytes: bytes.describe('Estimated memory of the loaded model.'),
  fits: z.enum(['yes', 'tight', 'no']),
  tokens_per_second: rate
    .nullable()
    .describe('Estimate for a single reply; null if the speed of this machine was not measured.'),
  prompt_tokens_per_second: rate.nullable(),
  licence,
  modalities: z.array(z.enum(['text', 'image', 'video', 'audio'])),
  max_context_tokens: z.int().positive().nullable(),
  places: places.nullable().describe('How the model writes places; null if it does not.'),
  scores: z.array(score),
  faults: z.array(z.string()),
  tried: trial.nullable().describe('The project’s own trial of the model; null if there was none.'),
  served_as: z.string().nullable().describe('The id for requests, if the server already has the model.'),
})

/** Response of `GET /v1/models/catalogue`: models that Lookout can download, best for the server's machine first. */
export const modelCatalogue = responses.object('ModelCatalogue', {
  object: z.literal('list'),
  checked: z.string().describe('The date on which the facts were looked up.'),
  available_bytes: bytes.describe('Memory that models may use.'),
  data: z.array(catalogueModel),
})

export type ModelCatalogueBody = z.output<typeof modelCatalogue>
