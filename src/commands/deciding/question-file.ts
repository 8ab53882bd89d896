import type { Document } from 'yaml'
import { ConfigError } from '../../config/config.ts'
import { isRecord } from '../../lib/json/parse-json.ts'
import { readText } from '../options.ts'

/** A question in the form of the API. */
export type AskedQuestion = Readonly<Record<string, unknown>>

type Path = readonly (string | number)[]

/** Question types that the API knows under `x_`. */
const OWN_TYPES = ['count', 'box', 'point', 'clip']

/** Questions from a file, with their positions. */
export interface QuestionFile {
  readonly questions: readonly AskedQuestion[]
  /** The position of a request's parameter in the file, as `questions.yaml:12:5`; null if it belongs to no question. */
  placeOf(param: string): string | null
}

/**
 * Reads questions in YAML or JSON: a list of them, or a map with their names as keys, at the top or under `questions`. A text is
 * a predicate; choices and levels may be texts.
 * @throws ConfigError naming the file, and the line where there is one.
 */
export async function readQuestions(path: string): Promise<QuestionFile> {
  const text = await readText(path)
  const { LineCounter, parseDocument } = await import('yaml')
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines })
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset)
    return `${path}:${line}:${col}`
  }
  const [problem] = document.errors
  if (problem)
    throw new ConfigError(`${at(problem.pos[0])}: ${problem.message.split('\n', 1)[0]!.replace(/ at line .*$/, '')}`)
  const content: unknown = document.toJS()
  const below: Path = isRecord(content) && typeof content.questions === 'object' ? ['questions'] : []
  const list: unknown = below.length > 0 ? (content as Record<string, unknown>).questions : content
  if (typeof list !== 'object' || list === null) {
    throw new ConfigError(`${path}: expected a list of questions, or a map with their names as keys`)
  }
  const entries = Array.isArray(list) ? [...list.entries()] : Object.entries(list)
  if (entries.length === 0) throw new ConfigError(`${path} has no questions`)
  return {
    questions: entries.map(([key, question]) => {
      const named = toQuestion(question, typeof key === 'string' ? key : null)
      if (named === null) throw new ConfigError(`${at(offsetOf(document, [...below, key]))}: expected a question`)
      return named
    }),
    placeOf(param) {
      const [, index, rest] = /^questions\[(\d+)\](.*)$/.exec(param) ?? []
      if (index === undefined) return null
      return at(offsetOf(document, [...below, entries[Number(index)]![0], ...keysOf(rest!)]))
    },
  }
}

/** Null unless it is a text or an object. A type may omit its `x_`, or be omitted if the fields imply it. */
export function toQuestion(question: unknown, name: string | null): AskedQuestion | null {
  const named = name === null ? {} : { name }
  if (typeof question === 'string') return { type: 'predicate', instructions: question, ...named }
  if (!isRecord(question)) return null
  const { choices, levels } = question
  const type = question.type ?? (choices !== undefined ? 'choice' : levels !== undefined ? 'score' : 'predicate')
  return {
    ...named,
    ...question,
    type: OWN_TYPES.includes(type as string) ? `x_${type}` : type,
    ...(Array.isArray(choices) && {
      choices: choices.map((value) => (isRecord(value) ? value : { value: toValue(value) })),
    }),
    ...(Array.isArray(levels) && {
      levels: levels.map((label) => (isRecord(label) ? label : { label: toText(label) })),
    }),
  }
}

/** YAML reads 3 as a number; a choice is a text, or true or false. */
function toValue(value: unknown): unknown {
  return typeof value === 'boolean' ? value : toText(value)
}

function toText(value: unknown): unknown {
  return typeof value === 'number' ? String(value) : value
}

/** Offset of the deepest existing part of a path: `choices[1].value` may be a text in a list. */
function offsetOf(document: Document, path: Path): number {
  for (let depth = path.length; depth > 0; depth--) {
    const node = document.getIn(path.slice(0, depth), true)
    if (isNode(node)) return node.range[0]
  }
  return 0
}

function isNode(node: unknown): node is { readonly range: readonly [number, number, number] } {
  return isRecord(node) && Array.isArray(node.range)
}

function keysOf(param: string): (string | number)[] {
  return [...param.matchAll(/\.([^.[]+)|\[(\d+)\]/g)].map(([, key, index]) => key ?? Number(index))
}
