import { join, resolve } from 'node:path'
import type { FamilyName } from '../../families/families.ts'
import type { GgufMetadata } from '../../families/gguf.ts'
import { hubModel, isContextExtended } from '../../families/hugging-face.ts'
import type { ImageProcessing } from '../../families/processors/image-processing.ts'
import { CardError } from '../card-error.ts'
import { isObject } from '../card-values.ts'
import { SERVER_ENGINES, type ServerEngine } from '../server-engines.ts'
import { readPlain } from './plain-file.ts'
import type { CardFolder } from './weight-files.ts'

/** A model's settings from a Hugging Face folder, under the keys of a GGUF header. */
export interface FolderHeaders {
  readonly language: GgufMetadata
  /** Null for a model without an image encoder, or with an unknown one. */
  readonly encoder: GgufMetadata | null
  /** The family of the model's architecture; null if the architecture does not determine one. */
  readonly family: FamilyName | null
  /** How images are sent to a server with the model; null for a model whose images are not served. */
  readonly images: ImageProcessing | null
  /** Why its images or sound are not served; null for a language model, and if images are served. */
  readonly unserved: string | null
  /** Tokens that end a reply. */
  readonly stopTokens: readonly number[]
}

/**
 * Key for the pixels of the smallest image that the processor does not enlarge. It is no limit of the model: a family
 * may want larger images.
 */
export const LEAST_PIXELS = 'preprocessor.min_pixels'

type Json = Readonly<Record<string, unknown>>

/** Tokens that end a reply in some vocabulary, even if its settings do not say so. */
const TURN_ENDS = ['<|im_end|>', '<|endoftext|>', '<|eot_id|>', '<|eom_id|>', '<end_of_turn>', '<|end_of_text|>']
const MESSAGE_END = '<|end|>'
/** If a vocabulary has these, a reply is several messages, and `MESSAGE_END` ends one of them. */
const REPLY_ENDS = [
  ['<|return|>', '<|call|>'],
  ['<|calls|>', '<|flush|>'],
]

/** RoPE rules that extend the context by a factor. Extensions by other rules are included in config.json's context. */
const EXTENDED_BY_FACTOR = ['linear', 'dynamic', 'yarn']

/** The largest known vocabularies have some 260,000 tokens. */
const MAX_TOKENS = 2 ** 20

/** `LLAMA_TOKEN_TYPE_NORMAL` and `LLAMA_TOKEN_TYPE_CONTROL`. */
const NORMAL = 1
const CONTROL = 3

/**
 * Reads the small files of a model's Hugging Face folder.
 * @param name of the folder, absolute or relative to the card.
 * @throws CardError for a folder without config.json or tokenizer.json, or with a file that is not JSON.
 */
export async function readFolderHeaders(name: string, place: CardFolder): Promise<FolderHeaders> {
  const folder = resolve(place.directory, name)
  const read = (file: string) => readJson(folder, file, place)
  const config = await read('config.json')
  const tokenizer = await read('tokenizer.json')
  if (config === null || tokenizer === null) {
    const missing = config === null ? 'config.json' : 'tokenizer.json'
    throw new CardError(place.file, 'engine.tokenizer', `the folder ${folder} has no ${missing}`)
  }
  const settings = (await read('tokenizer_config.json')) ?? {}
  const generation = (await read('generation_config.json')) ?? {}
  const thinker = isObject(config.thinker_config) ? config.thinker_config : config
  const text = [thinker.text_config, thinker.llm_config].find(isObject) ?? thinker
  const templates = await readTemplates(folder, settings, () => read('chat_template.json'))
  const { tokens, types } = vocabularyOf(tokenizer)
  const processor = (await read('processor_config.json')) ?? {}
  const own = await read('preprocessor_config.json')
  // Newer folders have both settings in one file.
  const within = isObject(processor.image_processor) ? processor.image_processor : null
  const images = { ...within, ...own }
  const tower = isObject(thinker.vision_config) ? thinker.vision_config : {}
  const known = new Set(tokens)
  const files = {
    ...{ vision: tower, images, processor, has: (token: string) => known.has(token) },
    config: {
      ...thinker,
      architectures: config.architectures,
      model_type: config.model_type,
      image_marks: marksOf(thinker, tokens),
    },
  }
  const model = hubModel(files, own !== null || within !== null)
  const { architecture } = model
  const tokenId = (token: unknown) => {
    const found = isObject(token) ? token.content : token
    const id = typeof found === 'string' ? tokens.indexOf(found) : -1
    return id < 0 ? undefined : id
  }
  const language = present({
    'general.architecture': architecture,
    [`${architecture}.context_length`]: contextOf(text),
    'tokenizer.chat_template': templates.plain,
    'tokenizer.chat_template.tool_use': templates.forTools,
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.token_type': types,
    'tokenizer.ggml.bos_token_id': tokenId(settings.bos_token),
    'tokenizer.ggml.eos_token_id': tokenId(settings.eos_token),
  })
  const eos = [generation.eos_token_id, text.eos_token_id, tokenId(settings.eos_token)].flat()
  const hasMessages = REPLY_ENDS.some((ends) => ends.every((token) => known.has(token)))
  const usual = hasMessages ? TURN_ENDS : [...TURN_ENDS, MESSAGE_END]
  const ends = [...eos, ...usual.map(tokenId)].filter((id) => typeof id === 'number')
  const stopTokens = [...new Set(ends)]
  const found = { family: model.family, images: model.images, unserved: model.unserved, stopTokens }
  if (model.images === null) return { language, encoder: null, ...found }
  if (model.images.limits !== null) {
    return { language, encoder: present({ 'clip.has_vision_encoder': true }), ...found }
  }
  const size = isObject(images.size) ? images.size : {}
  const encoder = present({
    'clip.has_vision_encoder': true,
    'clip.vision.patch_size': images.patch_size ?? tower.patch_size,
    'clip.vision.spatial_merge_size': images.merge_size ?? tower.spatial_merge_size,
    // Newer processors count pixels under these names.
    [LEAST_PIXELS]: images.min_pixels ?? size.shortest_edge,
    'clip.vision.image_max_pixels': images.max_pixels ?? size.longest_edge,
  })
  return { language, encoder, ...found }
}

/**
 * A folder's settings for servers of an engine. SGLang finds images in the text of a prompt by marks that depend on the
 * model; they are known here only for models whose image sizes the family knows.
 */
export function headersFor(engine: ServerEngine, headers: FolderHeaders): FolderHeaders {
  if (engine === 'vllm' || headers.images === null || headers.images.limits === null) return headers
  const unserved = `images are not served: where ${SERVER_ENGINES[engine]} looks for them in a prompt of this model is not known here`
  return { ...headers, encoder: null, images: null, unserved }
}

async function readJson(folder: string, file: string, place: CardFolder): Promise<Json | null> {
  const path = join(folder, file)
  const text = await readPlain(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw new CardError(place.file, 'engine.tokenizer', `cannot read ${path}: ${error.message}`, {
      cause: error,
      told: `${file} cannot be read`,
    })
  })
  if (text === null) return null
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    const message = `${path} is not valid JSON: ${(error as Error).message}`
    throw new CardError(place.file, 'engine.tokenizer', message, { cause: error })
  }
  if (!isObject(json)) throw new CardError(place.file, 'engine.tokenizer', `${path} is not a JSON object`)
  return json
}

/** The context in tokens, as vLLM and SGLang read it from config.json; not a number if config.json has none. */
function contextOf(text: Json): unknown {
  const { max_position_embeddings: positions, model_type: type } = text
  if (isContextExtended(String(type))) return positions
  const given = [text.rope_parameters, text.rope_scaling].find(isObject) ?? {}
  // Layers of several kinds may have rules of their own.
  const rules = [given, ...Object.values(given).filter(isObject)]
  const rule = rules.find(({ rope_type, type }) => EXTENDED_BY_FACTOR.includes(String(rope_type ?? type)))
  if (typeof rule?.factor !== 'number') return positions
  const isYarn = (rule.rope_type ?? rule.type) === 'yarn'
  const original = (isYarn ? rule.original_max_position_embeddings : undefined) ?? positions
  return typeof original === 'number' ? Math.floor(original * rule.factor) : positions
}

/** The tokens that begin, stand for, and end an image, whose ids are in config.json. */
function marksOf(config: Json, tokens: readonly string[]): readonly (string | undefined)[] | undefined {
  const ids = [config.vision_start_token_id, config.image_token_id, config.vision_end_token_id]
  return ids.every((id) => typeof id === 'number') ? ids.map((id) => tokens[id as number]) : undefined
}

interface Templates {
  readonly plain: unknown
  readonly forTools: unknown
}

/** The templates that Transformers uses: from template files, an older processor file, or the tokenizer's settings. */
async function readTemplates(folder: string, settings: Json, older: () => Promise<Json | null>): Promise<Templates> {
  const fileOf = (...path: string[]) => readPlain(join(folder, ...path)).catch(() => undefined)
  const plain = await fileOf('chat_template.jinja')
  const forTools = await fileOf('additional_chat_templates', 'tool_use.jinja')
  if (plain !== undefined || forTools !== undefined) return { plain: plain ?? forTools, forTools }
  return namedTemplates((await older())?.chat_template ?? settings.chat_template)
}

/** One, or several by name: as a list or as an object. */
function namedTemplates(given: unknown): Templates {
  const entries = Array.isArray(given)
    ? given.filter(isObject).map(({ name, template }) => [String(name), template] as const)
    : isObject(given)
      ? Object.entries(given)
      : [['default', given] as const]
  const named = new Map(entries)
  return { plain: named.get('default') ?? named.get('tool_use'), forTools: named.get('tool_use') }
}

/** The tokens by their ids, and the type of each, as llama.cpp numbers them. */
function vocabularyOf(tokenizer: Json): { readonly tokens: readonly string[]; readonly types: readonly number[] } {
  const tokens: string[] = []
  const types: number[] = []
  const add = (id: unknown, token: unknown, type: number) => {
    if (typeof id !== 'number' || typeof token !== 'string') return
    // An array with an element at a huge index would fill the memory.
    if (!(Number.isInteger(id) && id >= 0 && id < MAX_TOKENS)) return
    tokens[id] = token
    types[id] = type
  }
  const model = isObject(tokenizer.model) ? tokenizer.model : {}
  if (Array.isArray(model.vocab)) {
    for (const [id, entry] of model.vocab.entries()) if (Array.isArray(entry)) add(id, entry[0], NORMAL)
  } else if (isObject(model.vocab)) {
    for (const [token, id] of Object.entries(model.vocab)) add(id, token, NORMAL)
  }
  const added = Array.isArray(tokenizer.added_tokens) ? tokenizer.added_tokens.filter(isObject) : []
  for (const { id, content, special } of added) add(id, content, special === true ? CONTROL : NORMAL)
  return { tokens: Array.from(tokens, (token) => token ?? ''), types: Array.from(types, (type) => type ?? NORMAL) }
}

function present(values: Readonly<Record<string, unknown>>): GgufMetadata {
  return new Map(Object.entries(values).filter(([, value]) => value !== undefined && value !== null))
}
