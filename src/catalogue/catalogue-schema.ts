import { z } from 'zod'

const sentence = z.string().min(1).max(600)
const source = z.string().min(1).describe('Where it is said: a page, a report with its table, a file of a repository.')
const bytes = z.int().positive()

const file = z.strictObject({
  path: z.string().regex(/\.gguf$/),
  /** As the hub or another catalogue reports it, possibly rounded to .01 GB. */
  bytes,
})

const quantisation = z.strictObject({
  /** As it follows the colon in a model's address. */
  name: z.string().min(1),
  model: file,
})

export const MEMORY_CLASSES = [4, 6, 8, 16, 24, 32] as const

/** A model that Lookout can download and serve. Facts are the makers', with their sources; nothing is measured here. */
export const catalogueEntry = z.strictObject({
  /** The argument of `lookout pull`, such as `qwen3-vl-4b`. */
  name: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,60}$/),
  title: z.string().min(1),
  maker: z.string().min(1),
  /** Repository on Hugging Face, with GGUF files. */
  repository: z.string().regex(/^[\w.-]+\/[\w.-]+$/),
  /**
   * The smallest class, in GiB of a machine's memory, in which it fits (`rankForMachine`) if four fifths of the memory
   * are free.
   */
  memoryClass: z.literal(MEMORY_CLASSES),
  /** Recommended uses, best first. */
  uses: z.array(z.enum(['general', 'documents', 'grounding', 'video', 'audio'])).min(1),
  /** One sentence: why to choose it. */
  summary: sentence,
  /** Smallest first. */
  quantisations: z.array(quantisation).min(1),
  /** Name of the quantisation to choose unless memory decides otherwise. */
  defaultQuantisation: z.string().min(1),
  /** The image or audio encoder to download, even if a pull of the repository would choose another. */
  projector: file.nullable(),
  shape: z.strictObject({
    parameters: z.int().positive(),
    /**
     * Parameters used per token: fewer than all in a mixture of experts, and without embeddings that are only looked
     * up.
     */
    activeParameters: z.int().positive(),
    /** Bytes of keys and values per token of context, stored as f16, in the layers that keep them for every token. */
    kvBytesPerToken: z.int().positive(),
    /** The basis of these numbers, and the assumptions. */
    source: sentence,
  }),
  licence: z.strictObject({
    name: z.string().min(1),
    commercialUse: z.enum(['yes', 'limited', 'no', 'unknown']),
    /** In plain words: what it permits and requires. */
    meaning: sentence,
    source,
  }),
  /** The inputs that Lookout passes on to it, which may be fewer than its maker's software does. */
  takes: z.array(z.enum(['text', 'image', 'video', 'audio'])),
  languages: z.string().min(1).nullable(),
  contextTokens: z.int().positive().nullable(),
  tools: z.boolean(),
  thinks: z.enum(['no', 'optional', 'always']),
  /** How it writes places; null if it does not, or in a notation that Lookout does not read. */
  places: z
    .strictObject({
      draws: z.array(z.enum(['point', 'box', 'polygon'])).min(1),
      notation: sentence,
      /** What is published about their accuracy. */
      exactness: sentence.nullable(),
    })
    .nullable(),
  /** The prompt that a single-task model was trained with. */
  prompt: z.string().min(1).nullable(),
  scores: z.array(
    z.strictObject({ benchmark: z.string().min(1), value: z.number(), setting: z.string().nullable(), source }),
  ),
  faults: z.array(z.strictObject({ fault: sentence, source })),
  /** Values in the headers of its files, by which Lookout recognises it. */
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
  /** Whether the project itself has run these weights: when, and the doctor's verdict. */
  tried: z.union([z.literal('never'), z.strictObject({ on: z.iso.date(), verdict: sentence })]),
})

export const catalogueSchema = z.strictObject({
  /** Date when the facts were checked. */
  checked: z.iso.date(),
  models: z.array(catalogueEntry).min(1),
})

export type Catalogue = z.output<typeof catalogueSchema>
export type CatalogueEntry = z.output<typeof catalogueEntry>
