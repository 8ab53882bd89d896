import { stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { ConfigError } from '../../config/config.ts'
import { type JsonObject, parseRecord } from '../../lib/json/parse-json.ts'
import { type AskedQuestion, toQuestion } from '../deciding/question-file.ts'
import { readText } from '../options.ts'
import type { CalibratedType } from './judged.ts'

/** A question about a file, with its right answer. */
export interface Example {
  /** Its position for errors, as `examples.jsonl:12`. */
  readonly place: string
  /** Path of the picture, video or sound. */
  readonly file: string
  readonly question: AskedQuestion
  readonly type: CalibratedType
  readonly name: string | null
  /** Index of the right option. */
  readonly right: number
}

/** Name of the list in a folder. */
const FILE_NAME = 'examples.jsonl'
const MOST_COUNTED = 20

/** A line of a list of examples. */
export interface ExampleLine {
  /** As `examples.jsonl:12`. */
  readonly place: string
  /** File names are relative to this folder. */
  readonly folder: string
  readonly fields: JsonObject
}

/**
 * Reads a list of examples: a JSON object on each line.
 * @param path of the list, or of a folder with `examples.jsonl`.
 * @throws ConfigError naming the file and the line.
 */
export async function readLines(path: string): Promise<readonly ExampleLine[]> {
  const list = (await stat(path).catch(() => null))?.isDirectory() ? join(path, FILE_NAME) : path
  const text = await readText(list)
  const lines = text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return []
    const place = `${list}:${index + 1}`
    const fields = parseRecord(line)
    if (fields === null) throw new ConfigError(`${place}: expected a JSON object`)
    return [{ place, folder: dirname(list), fields }]
  })
  if (lines.length === 0) throw new ConfigError(`${list} has no examples`)
  return lines
}

/** Reads a line with `file`, a question as in questions.yaml, and its `answer`. @throws ConfigError naming the line. */
export function toExample({ place, folder, fields }: ExampleLine): Example {
  const fail = (problem: string): never => {
    throw new ConfigError(`${place}: ${problem}`)
  }
  const { file, answer, ...asked } = fields
  if (typeof file !== 'string' || file === '') return fail("expected 'file', the path of a picture")
  if (answer === undefined) return fail("expected 'answer', the right one")
  const question = toQuestion(asked, null)!
  const { type, name } = question
  const options = optionsOf(question)
  if (options === null) {
    return fail(`type '${type}': expected predicate, choice, score or count, whose answers have probabilities`)
  }
  const right = options.indexOf(typeof answer === 'number' && type !== 'x_count' ? String(answer) : answer)
  if (right === -1) return fail(`'answer': expected ${shown(options)}, not ${JSON.stringify(answer)}`)
  return {
    place,
    file: resolve(folder, file),
    question,
    type: type === 'x_count' ? 'score' : (type as CalibratedType),
    name: typeof name === 'string' ? name : null,
    right,
  }
}

/** The possible answers; null for questions without options. The server reports other errors. */
function optionsOf({ type, choices, levels, max }: AskedQuestion): readonly unknown[] | null {
  switch (type) {
    case 'predicate':
      return [true, false]
    case 'choice':
      return fieldsOf(choices, 'value')
    case 'score':
      return fieldsOf(levels, 'label')
    case 'x_count':
      return Array.from({ length: (typeof max === 'number' ? Math.min(max, 999) : MOST_COUNTED) + 1 }, (_, i) => i)
    default:
      return null
  }
}

function fieldsOf(list: unknown, field: string): readonly unknown[] {
  return Array.isArray(list) ? list.map((entry: Readonly<Record<string, unknown>>) => entry[field]) : []
}

/** The first of many options. */
function shown(options: readonly unknown[]): string {
  if (options.length === 0) return 'one of the options'
  const texts = options.slice(0, 5).map((option) => JSON.stringify(option))
  return `one of ${texts.join(', ')}${options.length > texts.length ? ' and so on' : ''}`
}
