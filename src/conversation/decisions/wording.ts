import type { DecisionForms } from '../../families/decision-forms.ts'
import type { Path } from '../../lib/errors/param.ts'
import { plainName } from '../../lib/plain-name.ts'
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

/** The question as the model gets it, and the meaning of each reply. */
export interface Wording {
  readonly content: Content
  /** At least one reply per option; no reply means two options. */
  readonly replies: readonly (readonly string[])[]
}

/** A model would not reply with a longer name: such options get letters. */
const LONGEST_NAME = 64

/** Words a question in the form that the model is trained on. The options of a predicate are yes and no. */
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

/** Levels are ordered, so they get numbers from 0 instead of letters. */
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
  /** The sign of each option when names cannot serve as replies. */
  readonly sign: string
  readonly signs: readonly string[]
}

function oneOf(alternatives: Alternatives, forms: DecisionForms): Wording {
  const { param, instructions, noun, sign, signs } = alternatives
  const options = alternatives.options.map(({ name, description }) => ({ name: replyTo(name), description }))
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

/** The reply that means an option. A name of several lines is a text, which a model does not repeat. */
function replyTo(name: string | boolean): string | boolean {
  return typeof name !== 'string' || /[\r\n]/.test(name.trim()) ? name : plainName(name)
}

function count({ param, instructions, most }: CountQuestion, forms: DecisionForms): Wording {
  const demand = forms.instructed ? text('Answer with a number in digits only.', param) : []
  return {
    content: paragraphs([instructions, demand], param),
    replies: Array.from({ length: most + 1 }, (_, number) => [String(number)]),
  }
}

/** Returns the replies that name each option; null if names are ambiguous or cannot serve as replies. */
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

/** Words that are capitalised only because they begin the sentence. */
const OPENING_WORD = /^(?:The|An?|There|This|These|Those|That|It|Its|All|Some|No|Every|Each|At|In|On)\b/

/** Turns a statement into a question, for models that know only questions. */
function asQuestion(statement: Content, param: Path): Content {
  const last = statement.findLastIndex(({ part }) => part.type === 'text')
  if (last === -1) return statement
  const parts = statement.map((placed, i): PlacedPart => {
    const { part } = placed
    if (part.type !== 'text') return placed
    const begun =
      i === 0
        ? part.text.trimStart().replace(OPENING_WORD, (word) => word[0]!.toLowerCase() + word.slice(1))
        : part.text
    return { ...placed, part: { type: 'text', text: i === last ? `${withoutEnd(begun)}?` : begun } }
  })
  return [...text('Is it true that ', param), ...parts]
}

/** Removes full stops and blanks at the end. A regular expression would take quadratic time here. */
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
