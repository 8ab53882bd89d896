import type { DecisionForms } from '../../families/decision-forms.ts'
import type { Path } from '../../lib/param.ts'
import type {
  ChoiceQuestion,
  Content,
  CountQuestion,
  PlacedPart,
  PredicateQuestion,
  ScoreQuestion,
} from '../request/decision-request.ts'
import { areDistinct, lettersFor, repliesFor } from './option-names.ts'

/** A question whose answer is read from the probabilities of replies. */
export type ReadableQuestion = PredicateQuestion | ChoiceQuestion | ScoreQuestion | CountQuestion

/** What the model is asked, and which replies mean what. */
export interface Wording {
  readonly content: Content
  /** For each option at least one reply; no reply means two of them. */
  readonly replies: readonly (readonly string[])[]
}

/** Longer names are no replies that a model would give: their options get letters. */
const LONGEST_NAME = 64

/** Puts a question as the model is used to it. The options of a predicate are yes and no. */
export function wordingOf(question: ReadableQuestion, forms: DecisionForms): Wording {
  switch (question.type) {
    case 'predicate':
      return predicate(question, forms)
    case 'choice':
      return choice(question, forms)
    case 'score':
      return score(question, forms)
    case 'count':
      return count(question, forms)
  }
}

function predicate({ param, instructions, yes, no }: PredicateQuestion, forms: DecisionForms): Wording {
  const lines = [
    ...(yes.length === 0 ? [] : [[...text('Yes: ', param), ...yes]]),
    ...(no.length === 0 ? [] : [[...text('No: ', param), ...no]]),
  ]
  const asked = forms.instructed
    ? isQuestion(instructions)
      ? 'Answer yes or no only.'
      : 'Is this true? Answer yes or no only.'
    : null
  const head = forms.instructed || isQuestion(instructions) ? instructions : asQuestion(instructions, param)
  return {
    content: paragraphs([head, listed(lines, param), asked === null ? [] : text(asked, param)], param),
    replies: [forms.yes, forms.no],
  }
}

function choice({ options, ...question }: ChoiceQuestion, forms: DecisionForms): Wording {
  const named = options.map(({ value, description }) => ({ name: value, description }))
  return oneOf({ ...question, options: named, noun: 'one', sign: 'letter', signs: lettersFor(options.length) }, forms)
}

/** Levels have numbers in place of letters, from 0: they have an order. */
function score({ levels, ...question }: ScoreQuestion, forms: DecisionForms): Wording {
  const named = levels.map(({ label, description }) => ({ name: label, description }))
  return oneOf(
    { ...question, options: named, noun: 'level', sign: 'number', signs: levels.map((_, i) => String(i)) },
    forms,
  )
}

interface Alternatives {
  readonly param: Path
  readonly instructions: Content
  readonly options: readonly { readonly name: string | boolean; readonly description: Content }[]
  readonly noun: string
  /** What options are called by where their names are no replies. */
  readonly sign: string
  readonly signs: readonly string[]
}

function oneOf(alternatives: Alternatives, forms: DecisionForms): Wording {
  const { param, instructions, options, noun, sign, signs } = alternatives
  const names = options.map(({ name }) => name)
  const byName = forms.labels === 'names' ? namedReplies(names, forms) : null
  const isDescribed = options.some(({ description }) => description.length > 0)
  const lines = options.map(({ name, description }, i) => {
    const line = byName === null ? `${signs[i]}. ${name}` : `- ${name}`
    return [...text(description.length === 0 || name === '' ? line : `${line}: `, param), ...description]
  })
  const isListed = byName === null || isDescribed || forms.instructed || instructions.length === 0
  const demand = `Answer with ${byName === null ? `the ${sign} of ` : ''}the ${noun} that fits best only.`
  const isDemanded = byName === null || forms.instructed
  return {
    content: paragraphs(
      [instructions, isListed ? listed(lines, param) : [], isDemanded ? text(demand, param) : []],
      param,
    ),
    replies: byName ?? repliesFor(signs, forms),
  }
}

function count({ param, instructions, most }: CountQuestion, forms: DecisionForms): Wording {
  const demand = forms.instructed ? text('Answer with a number in digits only.', param) : []
  return {
    content: paragraphs([instructions, demand], param),
    replies: Array.from({ length: most + 1 }, (_, number) => [String(number)]),
  }
}

/** The replies that name each option; null where names cannot tell them apart or are no replies. */
function namedReplies(
  names: readonly (string | boolean)[],
  forms: DecisionForms,
): readonly (readonly string[])[] | null {
  const texts = names.filter((name) => typeof name === 'string')
  if (texts.some((name) => name.trim() === '' || name.length > LONGEST_NAME || /[\r\n]/.test(name))) return null
  const written = repliesFor(names.map(String), forms)
  const replies = names.map((name, i) => (typeof name === 'string' ? written[i]! : name ? forms.yes : forms.no))
  return areDistinct(replies) ? replies : null
}

function isQuestion(content: Content): boolean {
  const last = content.findLast(({ part }) => part.type === 'text')?.part
  return last?.type === 'text' && /\?\s*$/.test(last.text)
}

/** How a sentence begins whose first letter is a capital for that alone. */
const OPENING_WORD = /^(?:The|An?|There|This|These|Those|That|It|Its|All|Some|No|Every|Each|At|In|On)\b/

/** A statement as models that know only questions are asked about it. */
function asQuestion(statement: Content, param: Path): Content {
  const last = statement.findLastIndex(({ part }) => part.type === 'text')
  if (last === -1) return statement
  const parts = statement.map((placed, i): PlacedPart => {
    const { part } = placed
    if (part.type !== 'text') return placed
    const begun =
      i === 0 ? part.text.replace(OPENING_WORD, (word) => word[0]!.toLowerCase() + word.slice(1)) : part.text
    return { ...placed, part: { type: 'text', text: i === last ? `${withoutEnd(begun)}?` : begun } }
  })
  return [...text('Is it true that ', param), ...parts]
}

/** Without full stops and blanks at its end. A pattern would look for that end from each of them, wherever they stand. */
function withoutEnd(text: string): string {
  let end = text.length
  while (end > 0 && /[.\s]/.test(text[end - 1]!)) end--
  return text.slice(0, end)
}

function listed(lines: readonly Content[], param: Path): Content {
  return lines.flatMap((line, i) => (i === 0 ? line : [...text('\n', param), ...line]))
}

function paragraphs(contents: readonly Content[], param: Path): Content {
  const filled = contents.filter((content) => content.length > 0)
  return filled.flatMap((content, i) => (i === 0 ? content : [...text('\n\n', param), ...content]))
}

function text(text: string, param: Path): Content {
  return [{ part: { type: 'text', text }, param }]
}
