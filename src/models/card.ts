import { readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
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
  /** What a million tokens cost of an organisation's budget; `cacheRead` is for prompt tokens that were computed before. */
  credits: z
    .strictObject({ input: z.int().nonnegative(), output: z.int().nonnegative(), cacheRead: z.int().nonnegative() })
    .default({ input: 0, output: 0, cacheRead: 0 }),
})

const cardFields = z.strictObject({
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
    /** A Jinja file in place of the chat template in the weights. */
    chatTemplate: z.string().min(1).optional(),
    /** KV cells shared by all sequences. */
    contextTokens: z.int().positive(),
    maxSequences: z.int().positive().default(64),
    /** Control tokens that are part of what the model says, such as `[TOOL_CALLS]`: its calls or thoughts are marked with them. */
    printedTokens: z.array(z.string().min(1)).default([]),
    /**
     * When a completion counts as going round in circles: it is ended as if it had used up its tokens, and a thought
     * is ended before the reply. Its end must be one block of at most `blockTokens`, token by token the same, `repeats`
     * times and `tokens` in all. What somebody wants to read, such as the rows of a table, differs somewhere; 8,192
     * tokens of `1` do not. Null: never. Requests with a negative penalty ask for repetition and get it.
     */
    repetition: z
      .strictObject({
        blockTokens: z.int().positive().max(256),
        repeats: z.int().min(2),
        tokens: z.int().positive(),
      })
      .nullable()
      .default({ blockTokens: 64, repeats: 32, tokens: 1024 }),
    /** Threads that compute; by default as many as the weights are worth on this machine. */
    threads: z.int().positive().optional(),
    /** Requests that may wait before further ones are refused; by default LOOKOUT_QUEUE_LENGTH. */
    queueLength: z.int().min(1).max(99_999).optional(),
  }),
  /** When the engine's process is started: with the service, or when a request first names the model. */
  load: z.enum(['start', 'first_use']).default('start'),
  image: z
    .strictObject({
      /** Side in pixels of the square that one token covers; sides of prepared pictures are multiples of it. */
      pixelsPerToken: z.int().positive(),
      minTokens: z.int().positive(),
      maxTokens: z.int().positive(),
    })
    .refine(({ minTokens, maxTokens }) => minTokens <= maxTokens, 'minTokens must not exceed maxTokens')
    .optional(),
  video: z
    .strictObject({
      /** As for still pictures: one encoder takes both. */
      pixelsPerToken: z.int().positive(),
      /** Of a frame, or of two that the encoder merges into one grid. */
      minTokens: z.int().positive(),
      maxTokens: z.int().positive(),
      /** Frames that are shown to the model, per second of the video; of a long one `maxFrames`, spread over it. */
      framesPerSecond: z.number().positive(),
      maxFrames: z.int().min(2).max(256),
    })
    .refine(({ minTokens, maxTokens }) => minTokens <= maxTokens, 'minTokens must not exceed maxTokens')
    .optional(),
  audio: z
    .strictObject({
      tokensPerSecond: z.number().positive(),
      /** For an encoder that takes sound in windows of so many seconds: one that has begun costs as much as a whole one. */
      windowSeconds: z.number().positive().optional(),
      /** How long a sound may be. */
      maxTokens: z.int().positive(),
    })
    .optional(),
  /** How the family grounds natively; `markup` is the contract's own notation. */
  dialect: z.enum(Object.keys(DIALECTS) as [DialectName, ...DialectName[]]),
  /**
   * How the model is told of the JSON schema that its reply is bound to, behind the text of the last user turn; `{schema}`
   * stands for the schema. Left out: not at all.
   */
  schemaPrompt: z.string().includes('{schema}').optional(),
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
      /** Whether the model first tells itself what exemplars show, also where the client asks for no thinking. */
      exemplars: z.boolean().default(false),
    })
    .refine(({ end, closing }) => closing.includes(end), 'closing must contain end')
    .optional(),
})

const cardSchema = cardFields.refine(({ image, video }) => image?.pixelsPerToken === (video ?? image)?.pixelsPerToken, {
  path: ['video', 'pixelsPerToken'],
  message: 'must be the same as for images',
})

export type ServedId = z.infer<typeof servedIdSchema>
export type ModelCard = z.infer<typeof cardSchema> & {
  /** Absolute path of the card itself. */
  readonly file: string
  /** Folder that the card's file names are relative to. */
  readonly directory: string
}
export type ImageLimits = NonNullable<ModelCard['image']>
export type VideoLimits = NonNullable<ModelCard['video']>
export type AudioLimits = NonNullable<ModelCard['audio']>

/** A card that cannot be used; the message is one line that names the card's file and the field. */
export class CardError extends Error {
  override readonly name = 'CardError'

  /** @param field path in the card, e.g. `serves[0].id`; empty for the card as a whole. */
  constructor(file: string, field: string, message: string, options?: ErrorOptions) {
    super(`Model card ${file}: ${field === '' ? '' : `${field}: `}${message}`, options)
  }
}

/** Reads and checks a card; the files that it names are not looked at. @throws CardError */
export async function loadCard(file: string): Promise<ModelCard> {
  const path = resolve(file)
  const refuse: (field: string, message: string, cause: unknown) => never = (field, message, cause) => {
    throw new CardError(path, field, message, { cause })
  }
  const text = await readFile(path, 'utf8').catch((error: Error) => refuse('', error.message, error))
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    refuse('', `not valid JSON: ${(error as Error).message}`, error)
  }
  const parsed = cardSchema.safeParse(json)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!
    refuse(z.core.toDotPath(issue.path), issue.message.replace(/^Invalid input: /, ''), parsed.error)
  }
  return { ...parsed.data, file: path, directory: dirname(path) }
}

/**
 * The cards that paths lead to, in their order: a path is a card, or a folder that holds a `card.json` or folders with
 * one each.
 * @throws Error for a path that leads to none.
 */
export async function findCards(paths: readonly string[]): Promise<string[]> {
  const found = await Promise.all(paths.map(cardsAt))
  return [...new Set(found.flat())]
}

async function cardsAt(path: string): Promise<string[]> {
  const entry = await stat(path).catch(() => null)
  if (entry === null) throw new Error(`No model card at ${path}: there is no such file or folder`)
  if (!entry.isDirectory()) return [path]
  const own = join(path, CARD_FILE)
  if (await isFile(own)) return [own]
  const inner = (await readdir(path)).sort().map((name) => join(path, name, CARD_FILE))
  const cards: string[] = []
  for (const card of inner) if (await isFile(card)) cards.push(card)
  if (cards.length === 0)
    throw new Error(`No model card at ${path}: neither it nor a folder in it holds a ${CARD_FILE}`)
  return cards
}

const CARD_FILE = 'card.json'

async function isFile(path: string): Promise<boolean> {
  const entry = await stat(path).catch(() => null)
  return entry?.isFile() ?? false
}
