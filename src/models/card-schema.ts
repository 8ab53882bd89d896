import { z } from 'zod'
import { decisionSchema } from '../families/decision-forms.ts'
import { FAMILY_NAMES } from '../families/families.ts'
import { imageFields } from '../families/image-limits.ts'
import { TOOL_SYNTAX_NAMES } from '../families/tool-syntax.ts'
import { DIALECTS, type DialectName } from '../grounding/dialects/dialects.ts'
import { KV_TYPES } from './derive/kv-cost.ts'
import { detectionSchema } from './detection-schema.ts'
import { POOLINGS } from './pooling.ts'
import { SERVER_ENGINE_TYPES } from './server-engines.ts'
import { CONSTRAINT_MODES, TEXT_TEMPLATE } from './text-card.ts'

export const servedIdSchema = z.strictObject({
  id: z.string().min(1),
  name: z.string().min(1),
  description: z.string().optional(),
  /** Unix seconds. */
  created: z.int().nonnegative(),
  /** Other ids that clients may send for this one. Never listed. */
  aliases: z.array(z.string().min(1)).default([]),
  /** The adapter that answers, by its name in `engine.adapters`; without one, the model alone does. */
  adapter: z.string().optional(),
  capabilities: z.array(z.enum(['response_format_json_schema', 'regex', 'tool_calling', 'embeddings', 'rerank'])),
  modalities: z.array(z.enum(['text', 'image', 'video', 'audio'])),
  outputFormats: z.array(z.enum(['text', 'point', 'box', 'polygon', 'clip'])),
  reasoning: z.boolean(),
  maxContextTokens: z.int().positive(),
  /** 0 for a model that writes no text. */
  maxOutputTokens: z.int().nonnegative(),
  /** The price of a million tokens, in credits; `cacheRead` is for prompt tokens that were computed before. */
  credits: z
    .strictObject({ input: z.int().nonnegative(), output: z.int().nonnegative(), cacheRead: z.int().nonnegative() })
    .default({ input: 0, output: 0, cacheRead: 0 }),
})

/** A Jinja file that replaces the model's own chat template, or the name of a built-in one: `built-in:chatml`. */
const chatTemplate = z.string().min(1).optional()
/** Control tokens that are part of the model's text, such as `[TOOL_CALLS]`: they mark its calls or thoughts. */
const printedTokens = z.array(z.string().min(1)).default([])
/** Requests that may wait before further ones are refused; by default LOOKOUT_QUEUE_LENGTH. */
const queueLength = z.int().min(1).max(99_999).optional()

/**
 * When a completion counts as a loop. A loop ends a reply as if its tokens were used up, and a thought before the
 * reply. The completion must end with the same block of at most `blockTokens` tokens, at least `repeats` times and
 * `tokens` tokens in all. Useful text, such as the rows of a table, differs somewhere; 8,192 tokens of `1` do not.
 * Null: never. Requests with a negative penalty ask for repetition and get it.
 */
const repetition = z
  .strictObject({
    blockTokens: z.int().positive().max(256),
    repeats: z.int().min(2),
    tokens: z.int().positive(),
  })
  .nullable()
  .default({ blockTokens: 64, repeats: 32, tokens: 1024 })

/** The name follows a colon in the ids of models. */
export const ADAPTER_NAME = /^[\w.-]{1,100}$/

/** llama.cpp, in a process of its own on this machine. */
const localEngineSchema = z.strictObject({
  type: z.literal('local').default('local'),
  /** Files, absolute or relative to the card: GGUF of the language model and of the encoders (mmproj). */
  model: z.string().min(1),
  projector: z.string().min(1).optional(),
  /**
   * LoRA adapters (GGUF), which ids choose with `adapter`. An adapter that no id chooses gets an id of its own:
   * `ID:NAME`. `scale` multiplies its effect.
   */
  adapters: z
    .array(
      z.strictObject({
        name: z.string().regex(ADAPTER_NAME, 'must consist of letters, digits, dots and dashes'),
        path: z.string().min(1),
        scale: z.number().default(1),
      }),
    )
    .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, 'has two adapters of one name')
    .default([]),
  chatTemplate,
  /** KV cells shared by all sequences. */
  contextTokens: z.int().positive(),
  maxSequences: z.int().positive().default(64),
  printedTokens,
  repetition,
  /** Threads that compute; by default, a number that suits the weights and this machine. */
  threads: z.int().positive().optional(),
  /** How keys and values are stored: `q8_0` takes about half the memory of `f16`, and rounds them to 8 bits. */
  kvType: z.enum(KV_TYPES).default('f16'),
  /** What GPUs compute, where the server has any; see docs/gpu.md. The names are llama.cpp's. */
  gpu: z
    .strictObject({
      /** Layers on GPUs (`n_gpu_layers`); the output counts as one. `auto`: as many as fit. 0: none. */
      layers: z.union([z.int().nonnegative(), z.literal('auto')], "expected a whole number or 'auto'").optional(),
      /** How several devices share a model (`split_mode`); by default `layer`. `none`: the main device has it all. */
      splitMode: z.enum(['none', 'layer', 'row', 'tensor']).optional(),
      /** The device that computes everything that is not split (`main_gpu`), and runs the encoders; from 0. */
      mainDevice: z.int().nonnegative().optional(),
      /** Share of each device (`tensor_split`); by default their free memory decides. */
      tensorSplit: z
        .array(z.number().nonnegative())
        .min(1)
        .max(16)
        .refine((shares) => shares.some((share) => share > 0), 'has no share greater than 0')
        .optional(),
      /** Names of the devices that the model may use, such as `CUDA0`; by default all. */
      devices: z
        .array(z.string().min(1))
        .min(1)
        .max(16)
        .refine((names) => new Set(names).size === names.length, 'names a device twice')
        .optional(),
      /** Whether a GPU runs the encoders, too (`mmproj_offload`); by default it does. */
      encoder: z.boolean().optional(),
    })
    .optional(),
  /** MiB for copies of finished requests' KV cells; by default LOOKOUT_PREFIX_CACHE. 0: none. */
  prefixCache: z.number().nonnegative().optional(),
  /** Whether next tokens are drafted from the prompt and the reply, if measured step times show that it pays. */
  speculation: z.boolean().default(true),
  queueLength,
})

/** Servers that all have the same model. Their addresses may end with `/v1`. */
const serverFields = {
  urls: z
    .array(
      z
        .url({ protocol: /^https?$/ })
        .refine((url) => isPlain(url), 'must have no user, password, query or #; engine.apiKeyEnv names the key')
        .transform(baseOf),
    )
    .min(1)
    .max(256)
    .refine((urls) => new Set(urls).size === urls.length, 'names a server twice'),
  model: z.string().min(1),
  /** The environment variable with the servers' key. */
  apiKeyEnv: z.string().min(1).optional(),
}
/** Removes `/v1` only from the path: a host can be called v1 too. */
function baseOf(address: string): string {
  const { origin, pathname } = new URL(address)
  return origin + pathname.replace(/(\/+v1)?\/*$/, '')
}
/** Other parts of an address would not be sent to the server, and a password would be in logs. */
function isPlain(address: string): boolean {
  const url = URL.parse(address)
  return url === null || url.username + url.password + url.search + url.hash === ''
}
const roomOfServer = {
  /** The most tokens in one sequence. */
  contextTokens: z.int().positive(),
  /** The most completions that one server computes at a time; further ones wait here. */
  maxSequences: z.int().positive().default(64),
}

/**
 * Servers of another engine, e.g. at `http://vllm-0:8000`. `model` is the name under which they serve it
 * (`--served-model-name`).
 */
export const serverEngineSchema = z.strictObject({
  type: z.enum(SERVER_ENGINE_TYPES),
  ...serverFields,
  /**
   * The folder of the model's Hugging Face repository, absolute or relative to the card, or at least these files of it:
   * config.json, tokenizer.json, tokenizer_config.json, generation_config.json, preprocessor_config.json and the chat template.
   */
  tokenizer: z.string().min(1),
  chatTemplate,
  ...roomOfServer,
  printedTokens,
  repetition,
  queueLength,
})

/**
 * OpenAI-compatible servers of any make, with or without `/v1` at the end of their addresses. `model` is the name under
 * which they list it (`GET /v1/models`).
 */
const openAiEngineSchema = z.strictObject({
  type: z.literal('openai'),
  ...serverFields,
  ...roomOfServer,
  queueLength,
  /**
   * How the servers are asked to constrain a reply: not at all; by `response_format`, for JSON schemas only; by
   * `structured_outputs`, as in vLLM; or by `grammar`, as in llama-server.
   */
  constraints: z.enum(CONSTRAINT_MODES).default('none'),
  /** Further fields of every request to the servers, e.g. `chat_template_kwargs`. */
  parameters: z.record(z.string(), z.unknown()).default({}),
  /** The messages for the servers are parsed back from this template. */
  chatTemplate: z.literal(TEXT_TEMPLATE).default(TEXT_TEMPLATE),
  /** The servers apply a template of their own, which may turn a client's text into control tokens. */
  trustedTemplate: z.literal(false).default(false),
})

const cardFields = z.strictObject({
  name: z.string().min(1),
  license: z.string().min(1),
  ownedBy: z.string().min(1),
  /**
   * Whether the model supports the contract's own request extensions: `vision_config`, hints in system texts, and
   * multilook. Without them, `vision_config` and multilook are rejected, and a hint is plain text.
   */
  extensions: z.boolean().default(true),
  /** The family that completes the card. Null: the card is complete. */
  family: z.enum(FAMILY_NAMES).nullable(),
  /** Where the files were fetched from, e.g. `hf:user/repo@commit`. Nothing depends on it. */
  source: z.string().min(1).optional(),
  serves: z.array(servedIdSchema).min(1),
  engine: z.discriminatedUnion('type', [localEngineSchema, serverEngineSchema, openAiEngineSchema]),
  /** When the engine's process is started: with the service, or when a request first names the model. */
  load: z.enum(['start', 'first_use']).default('start'),
  /** Set for a model that makes embeddings or scores documents, and writes no text. */
  embedding: z
    .strictObject({
      /**
       * How the vectors of a text's tokens become one (llama-server's `--pooling`); `rank`: a reranker's head makes a score.
       * Required for a model on this machine.
       */
      pooling: z.enum(POOLINGS).optional(),
      /** The fewest dimensions that an embedding may be cut to (Matryoshka); absent if embeddings cannot be cut. */
      leastDimensions: z.int().positive().optional(),
      /**
       * The prompt around an input: `{input}` stands for its text and images, `{instruction}` for the purpose of the
       * vector. Without it, the model gets the input alone. It is used neither for inputs given as tokens nor for a
       * reranker's.
       */
      prompt: z
        .string()
        .refine((text) => text.split('{input}').length === 2, "must contain '{input}' once")
        .optional(),
      /** The default for `{instruction}`, if a request has no system message. */
      instruction: z.string().optional(),
    })
    .optional(),
  image: z
    .strictObject(imageFields)
    .refine(({ minTokens, maxTokens }) => minTokens <= maxTokens, 'minTokens must not exceed maxTokens')
    .refine(({ auto }) => !auto || auto.minTokens <= auto.maxTokens, {
      path: ['auto'],
      message: 'minTokens must not exceed maxTokens',
    })
    .refine(({ enlarges, longestEdge }) => !enlarges || longestEdge !== undefined, {
      path: ['enlarges'],
      message: 'needs longestEdge',
    })
    .refine(({ square, maxTokens }) => !square || Number.isInteger(Math.sqrt(maxTokens)), {
      path: ['maxTokens'],
      message: 'must be a square number where images become squares',
    })
    .refine(
      ({ tiles, square, longestEdge, rowEnds, fills }) => !tiles || !(square || longestEdge || rowEnds || fills),
      {
        path: ['tiles'],
        message: 'cannot be combined with square, longestEdge, rowEnds or fills',
      },
    )
    .refine(({ tiles, maxTokens }) => tiles?.grid !== 'longest' || maxTokens >= (tiles.along ** 2 + 1) * tiles.tokens, {
      path: ['maxTokens'],
      message: 'must be as many as all tiles have: this encoder cuts every image into as many along its longer side',
    })
    .optional(),
  video: z
    .strictObject({
      /** As for still pictures: one encoder is used for both. */
      pixelsPerToken: z.int().positive(),
      /** Tokens of a frame, or of two that the encoder merges into one grid. */
      minTokens: z.int().positive(),
      maxTokens: z.int().positive(),
      /** Frames that the model gets, per second of the video; for a long video, `maxFrames`, spread over it. */
      framesPerSecond: z.number().positive(),
      maxFrames: z.int().min(2).max(256),
      /** How frames are laid out in the prompt. */
      layout: z.strictObject({
        /** Consecutive frames that the encoder merges into one grid; 1: each frame is an image of its own. */
        framesPerGrid: z.union([z.literal(1), z.literal(2)]),
        /** Text before each grid; `{seconds}` or `{mm:ss}` stands for the time of its middle. Null: none. */
        timestamp: z
          .string()
          .regex(/\{seconds\}|\{mm:ss\}/, "must contain '{seconds}' or '{mm:ss}'")
          .nullable(),
      }),
    })
    .refine(({ minTokens, maxTokens }) => minTokens <= maxTokens, 'minTokens must not exceed maxTokens')
    .optional(),
  audio: z
    .strictObject({
      tokensPerSecond: z.number().positive(),
      /** Length of an encoder's windows, in seconds. A partial window takes as much of the context as a whole one. */
      windowSeconds: z.number().positive().optional(),
      /** The longest sound, in tokens at `tokensPerSecond`, without the rest of a window. */
      maxTokens: z.int().positive(),
    })
    .optional(),
  /** How the model writes where things are; `markup` is the contract's own notation. Null: it does not. */
  dialect: z.enum(Object.keys(DIALECTS) as [DialectName, ...DialectName[]]).nullable(),
  /**
   * Whether the model itself writes which of several images or videos an annotation is about (`asset_idx`). Otherwise
   * it is asked about each of them in turn. Only in the dialect `markup`.
   */
  namesAssets: z.boolean().default(false),
  /**
   * Text that shows the model the JSON schema of its reply; `{schema}` stands for the schema. It follows the text of the
   * last user turn. Without it the model does not see the schema. A card whose `capabilities` are derived gets one unless it
   * says null.
   */
  schemaPrompt: z.string().includes('{schema}').optional(),
  /** How the model decides, and the calibration of its probabilities; see docs/decisions.md. */
  decision: decisionSchema,
  /** Calibration of the confidence of its boxes, from `lookout calibrate`. Without it, they are not calibrated. */
  detection: detectionSchema.optional(),
  /** How the model writes tool calls; needed for the capability `tool_calling`. */
  toolSyntax: z.enum(TOOL_SYNTAX_NAMES).optional(),
  /** How the model marks its thoughts; needed for `reasoning`. */
  thought: z
    .strictObject({
      /** Text at the end of a prompt that makes the model think, e.g. `<think>\n`. */
      begin: z.string().regex(/\S/),
      /** The mark that ends a thought, e.g. `</think>`. */
      end: z.string().regex(/^\S+$/),
      /** The end mark with the text around it before a reply, e.g. `\n</think>\n\n`. */
      closing: z.string(),
      /** Whether the model first describes exemplars to itself, even if the client asks for no thinking. */
      exemplars: z.boolean().default(false),
    })
    .refine(({ end, closing }) => closing.includes(end), 'closing must contain end')
    .optional(),
})

/** A card with everything that its family adds. */
export const cardSchema = cardFields
  .refine(({ image, video }) => image?.pixelsPerToken === (video ?? image)?.pixelsPerToken, {
    path: ['video', 'pixelsPerToken'],
    message: 'must be the same as for images',
  })
  .refine(({ serves, engine }) => serves.every(({ adapter }) => adapter === undefined || hasAdapter(engine, adapter)), {
    path: ['serves'],
    message: "names an adapter that is not in 'engine.adapters'",
  })
  .refine(
    ({ embedding, engine }) => embedding === undefined || engine.type !== 'local' || engine.adapters.length === 0,
    {
      path: ['engine', 'adapters'],
      message: 'must be left out of a model that makes embeddings: it is computed without adapters',
    },
  )
  .refine(({ image, video }) => !image?.tiles || !video, {
    path: ['video'],
    message: 'must be left out where images are cut into tiles: frames would be cut as well',
  })
  .refine(({ namesAssets, dialect }) => !namesAssets || dialect === 'markup', {
    path: ['namesAssets'],
    message: "needs the dialect 'markup': no other can say it",
  })

function hasAdapter(engine: z.infer<typeof cardFields>['engine'], name: string): boolean {
  return engine.type === 'local' && engine.adapters.some((adapter) => adapter.name === name)
}
