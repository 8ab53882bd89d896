import { z } from 'zod'

const sentence = z.string().min(1).max(600)
const source = z.string().min(1).describe('Where it is said: a page, a report with its table, a file of a repository.')
const bytes = z.int().positive()

const file = z.strictObject({
  path: z.string().regex(/\.gguf$/),
  /** As the hub or another catalogue gives it, which may be rounded to .01 GB. */
  bytes,
})

const quantisation = z.strictObject({
  /** As it follows the colon of a model's address. */
  name: z.string().min(1),
  model: file,
})

export const MEMORY_CLASSES = [4, 6, 8, 16, 24, 32] as const

/** A real model that Lookout can fetch and serve. Facts are the makers', with their sources; nothing is measured here. */
export const catalogueEntry = z.strictObject({
  /** What `lookout pull` takes: `qwen3-vl-4b`. */
  name: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,60}$/),
  title: z.string().min(1),
  maker: z.string().min(1),
  /** On Hugging Face, with GGUF files. */
  repository: z.string().regex(/^[\w.-]+\/[\w.-]+$/),
  /** The smallest of these, in GiB of a machine, on which it fits (`rankForMachine`) while four fifths of it are free. */
  memoryClass: z.literal(MEMORY_CLASSES),
  /** What it is recommended for, best first. */
  uses: z.array(z.enum(['general', 'documents', 'grounding', 'video', 'audio'])).min(1),
  /** One sentence: why one would take it. */
  summary: sentence,
  /** Smallest first. */
  quantisations: z.array(quantisation).min(1),
  /** Name of the quantisation to take where the memory does not decide otherwise. */
  defaultQuantisation: z.string().min(1),
  /** The image or audio encoder to fetch, even where a pull of the repository would choose another. */
  projector: file.nullable(),
  shape: z.strictObject({
    parameters: z.int().positive(),
    /** Parameters that one token uses: fewer than all in a mixture of experts, and without embeddings that are only looked up. */
    activeParameters: z.int().positive(),
    /** Bytes of keys and values for each token of context, stored as f16, in the layers that keep them for each token. */
    kvBytesPerToken: z.int().positive(),
    /** What these numbers follow from, and what was assumed. */
    source: sentence,
  }),
  licence: z.strictObject({
    name: z.string().min(1),
    commercialUse: z.enum(['yes', 'limited', 'no', 'unknown']),
    /** In plain words: what it allows and asks for. */
    meaning: sentence,
    source,
  }),
  /** What Lookout passes on to it, which may be less than its maker does. */
  takes: z.array(z.enum(['text', 'image', 'video', 'audio'])),
  languages: z.string().min(1).nullable(),
  contextTokens: z.int().positive().nullable(),
  tools: z.boolean(),
  thinks: z.enum(['no', 'optional', 'always']),
  /** How it writes where things are; null where it does not, or in a way that Lookout does not read. */
  places: z
    .strictObject({
      draws: z.array(z.enum(['point', 'box', 'polygon'])).min(1),
      notation: sentence,
      /** What is published about how exact they are. */
      exactness: sentence.nullable(),
    })
    .nullable(),
  /** The prompt that a model of one task was trained with. */
  prompt: z.string().min(1).nullable(),
  scores: z.array(
    z.strictObject({ benchmark: z.string().min(1), value: z.number(), setting: z.string().nullable(), source }),
  ),
  faults: z.array(z.strictObject({ fault: sentence, source })),
  /** What the headers of its files say, by which Lookout recognises it. */
  recognisedBy: z.strictObject({
    /** A family of `src/families`. */
    family: z.string().min(1),
    /** `general.name` of the language model. */
    name: z.string().min(1),
    /** `general.architecture` of the language model. */
    architecture: z.string().min(1),
    /** `clip.vision.projector_type` and `clip.audio.projector_type` of the encoder. */
    imageProjector: z.string().min(1).nullable(),
    audioProjector: z.string().min(1).nullable(),
  }),
  sources: z.strictObject({
    /** Source of the repository, the names and the sizes of files. */
    files: source,
    /** Source of languages, context, tools, thoughts and notation. */
    facts: source,
  }),
  /** Whether the project itself has run these weights: when, and what its doctor said. */
  tried: z.union([z.literal('never'), z.strictObject({ on: z.iso.date(), verdict: sentence })]),
})

export const catalogueSchema = z.strictObject({
  /** When the facts were looked up. */
  checked: z.iso.date(),
  models: z.array(catalogueEntry).min(1),
})

export type Catalogue = z.output<typeof catalogueSchema>
export type CatalogueEntry = z.output<typeof catalogueEntry>
