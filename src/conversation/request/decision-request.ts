import type { Names, Path } from '../../lib/errors/param.ts'
import type { ContentPart, PlacedMessage } from './message.ts'

/** A parsed request for decisions: questions that are answered independently about one input. */
export interface DecisionRequest {
  /** The input that all questions are about. If it ends with a user turn, the questions continue that turn. */
  readonly input: readonly PlacedMessage[]
  /** At least one. */
  readonly questions: readonly Question[]
  /** Whether the temperatures of the model's card apply. Without them, probabilities are the model's own. */
  readonly calibrated: boolean
  /** The request's names of the parameters that errors name, if they differ from those in messages. */
  readonly names: Names
}

export type Question = PredicateQuestion | ChoiceQuestion | ScoreQuestion | CountQuestion | FindQuestion

interface Asked {
  /** The question's place in the request, for errors. */
  readonly param: Path
  /** Empty when the options suffice. */
  readonly instructions: Content
}

/** Asks how likely it is that a statement is true, or that the answer to a question is yes. */
export interface PredicateQuestion extends Asked {
  readonly type: 'predicate'
  /** What counts as yes and as no; empty if the request does not say. */
  readonly yes: Content
  readonly no: Content
}

export interface ChoiceQuestion extends Asked {
  readonly type: 'choice'
  /** At least two. */
  readonly options: readonly Option[]
}

interface Option {
  /** True and false stand for yes and no. A string is not empty. */
  readonly value: string | boolean
  readonly description: Content
}

/** Asks which level fits, from the lowest to the highest. */
export interface ScoreQuestion extends Asked {
  readonly type: 'score'
  /** At least two. */
  readonly levels: readonly Level[]
}

export interface Level {
  readonly label: string
  readonly description: Content
}

/** Asks for a number, from 0 to `most`. */
export interface CountQuestion extends Asked {
  readonly type: 'count'
  readonly most: number
}

/** Asks where something is. The instructions are one text, which names it. */
export interface FindQuestion {
  readonly type: FindKind
  readonly param: Path
  readonly instructions: string
}

export type FindKind = 'box' | 'point' | 'clip'

export function isFind(question: Question): question is FindQuestion {
  return question.type === 'box' || question.type === 'point' || question.type === 'clip'
}

/** Texts and media, each with the parameter that it comes from. */
export type Content = readonly PlacedPart[]

export interface PlacedPart {
  readonly part: ContentPart
  readonly param: Path
}

/** Yields all contents of the questions, for searching their media. */
export function* contentsOf({ questions }: DecisionRequest): Generator<{ readonly content: readonly ContentPart[] }> {
  for (const question of questions) {
    if (typeof question.instructions === 'string') continue
    const contents = [question.instructions, ...describedIn(question)]
    yield { content: contents.flat().map(({ part }) => part) }
  }
}

function describedIn(question: Question): readonly Content[] {
  switch (question.type) {
    case 'predicate':
      return [question.yes, question.no]
    case 'choice':
      return question.options.map(({ description }) => description)
    case 'score':
      return question.levels.map(({ description }) => description)
    default:
      return []
  }
}
