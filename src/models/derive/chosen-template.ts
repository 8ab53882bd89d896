import { resolve } from 'node:path'
import type { GgufMetadata } from '../../families/gguf.ts'
import {
  BUILT_IN_MARKS,
  BUILT_IN_PREFIX,
  builtInFor,
  builtInTemplate,
  LLAMA_CPP_FORMATS,
} from '../../templates/built-in.ts'
import type { TemplateTraits } from '../../templates/traits.ts'
import { CardError } from '../card-error.ts'
import { probeGuarded } from '../read/model-reader.ts'
import { readPlain } from '../read/plain-file.ts'
import { findTokens } from '../read/vocabulary.ts'
import type { CardFolder } from '../read/weight-files.ts'

export interface ChosenTemplate {
  /** Jinja source. */
  readonly source: string
  /** Where it comes from, for users. */
  readonly origin: string
  /** The built-in template that it is, as a card names it; null for a template of the model's or the card's own. */
  readonly builtIn: string | null
}

/**
 * The chat template that a card names, or that is in the weights; a built-in one if neither has any.
 * @param given `engine.chatTemplate` of the card.
 * @throws CardError when the template that the card names cannot be read.
 */
export async function chooseTemplate(
  given: string | undefined,
  language: GgufMetadata,
  place: CardFolder,
): Promise<ChosenTemplate> {
  if (given?.startsWith(BUILT_IN_PREFIX)) return builtIn(given.slice(BUILT_IN_PREFIX.length), language, place)
  if (given !== undefined) return { source: await readTemplate(given, place), origin: given, builtIn: null }
  const own = textAt(language, TEMPLATE_KEY)
  if (own === null) return chooseBuiltIn(language, place)
  if (LLAMA_CPP_FORMATS.has(own.trim())) return { ...builtIn(own.trim(), language, place), origin: TEMPLATE_KEY }
  const forTools = textAt(language, TOOLS_TEMPLATE_KEY)
  return { source: forTools === null ? own : joined(own, forTools), origin: TEMPLATE_KEY, builtIn: null }
}

const TEMPLATE_KEY = 'tokenizer.chat_template'
/** Some models have a separate template for conversations with tools. */
const TOOLS_TEMPLATE_KEY = `${TEMPLATE_KEY}.tool_use`

function textAt(language: GgufMetadata, key: string): string | null {
  const text = language.get(key)
  return typeof text === 'string' && text.trim() !== '' ? text : null
}

/**
 * One template that renders conversations with tools by the second one, as Transformers chooses between them. The empty
 * expressions keep Jinja from removing white space at the ends of either.
 */
function joined(plain: string, forTools: string): string {
  const hasTools = "tools or messages | selectattr('role', 'equalto', 'tool') | list"
  const [first, second] = [forTools, plain].map((text) => `{{ '' }}${text.replace(/\n$/, '')}{{ '' }}`)
  return `{% if ${hasTools} %}${first}{% else %}${second}{% endif %}`
}

/**
 * Traits of a template that is not built in; undefined for one that is.
 * @throws CardError when it cannot be used.
 */
export async function traitsOf(
  { source, builtIn }: ChosenTemplate,
  place: CardFolder,
): Promise<TemplateTraits | undefined> {
  if (builtIn !== null) return undefined
  const { traits } = await probeGuarded(source).catch((error: Error) => {
    throw templateFailure(error, place)
  })
  return traits
}

export function templateFailure(error: Error, { file }: CardFolder): CardError {
  return new CardError(file, 'engine.chatTemplate', `the chat template cannot be used: ${error.message}`, {
    cause: error,
  })
}

/** The built-in template whose marks the vocabulary has. */
export function chooseBuiltIn(language: GgufMetadata, place: CardFolder): ChosenTemplate {
  const known = findTokens(language, BUILT_IN_MARKS)
  return builtIn(
    builtInFor((token) => known.has(token)),
    language,
    place,
  )
}

/**
 * The warning about a model without a template; null for one that has a template, or whose card names a built-in one.
 */
export function builtInWarning({ builtIn: name, origin }: ChosenTemplate): string | null {
  if (name === null || origin === TEMPLATE_KEY) return null
  const format =
    name === `${BUILT_IN_PREFIX}plain`
      ? 'it gets a plain completion prompt, since its vocabulary has the marks of no known chat format'
      : `it gets '${name}', whose marks its vocabulary has`
  return `the model has no chat template of its own: ${format}`
}

function builtIn(name: string, language: GgufMetadata, { file }: CardFolder): ChosenTemplate {
  let source: string
  try {
    source = builtInTemplate(name)
  } catch (error) {
    throw new CardError(file, 'engine.chatTemplate', (error as Error).message)
  }
  const begins = name === 'plain' ? beginsWithBos(language) : true
  return {
    source: begins ? source : source.replace('{{- bos_token -}}\n', ''),
    origin: 'the vocabulary',
    builtIn: BUILT_IN_PREFIX + name,
  }
}

/** Whether the model expects a BOS token. Unless the header says so, only the oldest kind of tokenisers does. */
function beginsWithBos(language: GgufMetadata): boolean {
  const said = language.get('tokenizer.ggml.add_bos_token')
  return typeof said === 'boolean' ? said : language.get('tokenizer.ggml.model') === 'llama'
}

async function readTemplate(name: string, { file, directory }: CardFolder): Promise<string> {
  const path = resolve(directory, name)
  return readPlain(path).catch((error: Error) => {
    throw new CardError(file, 'engine.chatTemplate', `cannot read the file ${path}: ${error.message}`, {
      told: 'the file cannot be read',
    })
  })
}
