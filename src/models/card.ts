import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { DIALECTS, type DialectName } from '../grounding/index.ts'

/**
 * A model card (`card.json`) says everything the server must know about a model that its weights do not say: under which
 * ids it is served, what those ids may do, where the files are, and how pictures are prepared for it.
 */
const servedIdSchema = z.strictObject({
  id: z.string().min(1),
  name: z.string().min(1),
  description: z.string().optional(),
  /** Unix seconds. */
  created: z.int().nonnegative(),
  /** Other ids that clients may send for this one. Never listed. */
  aliases: z.array(z.string().min(1)).default([]),
  capabilities: z.array(z.enum(['response_format_json_schema', 'regex', 'tool_calling'])),
  modalities: z.array(z.enum(['text', 'image', 'video', 'audio'])),
  outputFormats: z.array(z.enum(['text', 'point', 'box', 'polygon', 'clip'])),
  reasoning: z.boolean(),
  maxContextTokens: z.int().positive(),
  maxOutputTokens: z.int().positive(),
})

const cardSchema = z.strictObject({
  name: z.string().min(1),
  license: z.string().min(1),
  ownedBy: z.string().min(1),
  /** True for the service's own models: only they take `vision_config`. */
  ownModel: z.boolean(),
  serves: z.array(servedIdSchema).min(1),
  engine: z.strictObject({
    type: z.literal('local'),
    /** Files relative to the card: GGUF of the language model and of the encoders (mmproj). */
    model: z.string().min(1),
    projector: z.string().min(1).optional(),
    /** KV cells shared by all sequences. */
    contextTokens: z.int().positive(),
    maxSequences: z.int().positive().default(64),
  }),
  image: z
    .strictObject({
      /** Side in pixels of the square that one token covers; sides of prepared pictures are multiples of it. */
      pixelsPerToken: z.int().positive(),
      minTokens: z.int().positive(),
      maxTokens: z.int().positive(),
    })
    .refine(({ minTokens, maxTokens }) => minTokens <= maxTokens, 'minTokens must not exceed maxTokens')
    .optional(),
  /** How the family grounds natively; `markup` is the contract's own notation. */
  dialect: z.enum(Object.keys(DIALECTS) as [DialectName, ...DialectName[]]),
  /** How the family writes tool calls; needed for the capability `tool_calling`. */
  toolSyntax: z.enum(['hermes', 'qwen3_coder', 'llama3', 'mistral', 'gemma4']).optional(),
  /** How the family marks its thoughts; needed for `reasoning`. */
  thought: z
    .strictObject({
      /** Text at the end of a prompt that has the model think, e.g. `<think>\n`. */
      begin: z.string().regex(/\S/),
      /** The mark that ends a thought, e.g. `</think>`. */
      end: z.string().regex(/^\S+$/),
      /** The mark with what stands around it before a reply, e.g. `\n</think>\n\n`. */
      closing: z.string(),
    })
    .refine(({ end, closing }) => closing.includes(end), 'closing must contain end')
    .optional(),
})

export type ServedId = z.infer<typeof servedIdSchema>
export type ModelCard = z.infer<typeof cardSchema> & {
  /** Folder that the card's file names are relative to. */
  readonly directory: string
}
export type ImageLimits = NonNullable<ModelCard['image']>

/** Reads and checks a card. Throws an Error that names the file and the field at fault. */
export async function loadCard(file: string): Promise<ModelCard> {
  const path = resolve(file)
  let parsed: z.infer<typeof cardSchema>
  try {
    parsed = cardSchema.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch (error) {
    const reason = error instanceof z.ZodError ? z.prettifyError(error) : String(error)
    throw new Error(`Model card ${path} is not usable: ${reason}`, { cause: error })
  }
  return { ...parsed, directory: dirname(path) }
}
