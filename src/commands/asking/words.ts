import { stat } from 'node:fs/promises'
import { ConfigError } from '../../config/config.ts'
import { NO_MODEL, nameOfModel, notPulled } from '../models/no-model.ts'
import { isNoUtf8 } from './media.ts'

/** The names under which models answer. */
export interface ModelNames {
  /** In the order in which they are served. */
  readonly ids: readonly string[]
  /** Whether a model has the name, or has it as an alias. */
  has(name: string): Promise<boolean>
}

export interface SortedWords {
  /** The name of a model; null when none was given. */
  readonly model: string | null
  /** Existing files and folders, and `-` for standard input, in order. */
  readonly media: readonly string[]
  /** The other argument: the question or the categories. */
  readonly text: string | null
}

const MEDIA_NAME =
  /\.(png|jpe?g|webp|gif|tiff?|avif|svg|bmp|pdf|heic|heif|mp4|mov|webm|m4v|mkv|avi|wav|mp3|flac|m4[ab]|og[ga]|opus|weba|aac)$/i

/**
 * Sorts the arguments of `chat` or `detect`: existing files are media, a first argument that names a model is the
 * model, and one other argument is the text.
 * @param model the value of `--model`.
 * @param meaning of the text, for errors: `question`, `categories`.
 * @throws ConfigError in one sentence if an argument could mean several things, or nothing.
 */
export async function sortWords(
  given: readonly string[],
  { model, names, meaning }: { model: string | null; names: ModelNames; meaning: string },
): Promise<SortedWords> {
  const media: string[] = []
  const words: string[] = []
  let named = model === null ? null : await findModel(model, names)
  for (const [index, word] of given.entries()) {
    const exists = word === '-' || (word !== '' && (await stat(word).catch(() => null)) !== null)
    const mayBeModel = index === 0 && model === null && !/\s/.test(word) && word !== '-' && word !== ''
    const name = mayBeModel && !looksLikeFile(word) ? await nameOfModel(word, (one) => names.has(one)) : null
    if (name !== null) {
      if (exists) throw new ConfigError(`'${word}' is a model and a file: write --model ${word} or ./${word}`)
      named = name
    } else if (exists) media.push(word)
    else if (/^https?:\/\//i.test(word) && !/\s/.test(word)) {
      throw new ConfigError(`'${word}' is an address: download it first, and name the file`)
    } else if (looksLikeFile(word)) throw noFile(word)
    else {
      const problem = mayBeModel ? await notPulled(word) : null
      if (problem !== null) throw problem
      words.push(word)
    }
  }
  if (media.filter((word) => word === '-').length > 1) throw new ConfigError('- can be given only once')
  const [text = null, spare] = words
  if (spare !== undefined) {
    if (given[0] !== text)
      throw new ConfigError(`expected one argument with the ${meaning}, not '${text}' and '${spare}': quote it`)
    throw new ConfigError(`'${text}' is neither a file nor a model; the models are ${names.ids.join(', ')}`)
  }
  if (text !== null && named === null && names.ids.includes(text)) {
    throw new ConfigError(`'${text}' is a model: name it before the files`)
  }
  return { model: named, media, text }
}

export function noFile(name: string): ConfigError {
  return new ConfigError(
    isNoUtf8(name) ? `'${name}' cannot be read: its name is not UTF-8` : `there is no file '${name}'`,
  )
}

/** The name under which the model of `--model` is served. @throws ConfigError when there is none. */
export async function findModel(given: string, names: ModelNames): Promise<string> {
  const { ids } = names
  const name = await nameOfModel(given, (one) => names.has(one))
  if (name !== null) return name
  const problem = ids.length === 0 ? NO_MODEL : `unknown model '${given}'; the models are ${ids.join(', ')}`
  throw (await notPulled(given)) ?? new ConfigError(problem)
}

/** Whether an argument looks like a file name, even if the file does not exist. */
function looksLikeFile(word: string): boolean {
  return !/\s/.test(word) && (MEDIA_NAME.test(word) || /^(~|\.{0,2})\/./.test(word))
}
