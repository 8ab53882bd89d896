import type { Names, Path } from '../../lib/param.ts'
import type { ContentPart, PlacedMessage } from './message.ts'

/** A parsed request for decisions: questions that are answered independently about one input. */
export interface DecisionRequest {
  /** What all questions are about. The last user turn, if it comes last, is the one that the questions continue. */
  readonly input: readonly PlacedMessage[]
  /** At least one. */
  readonly questions: readonly Question[]
  /** Whether the temperatures of the model's card apply. Without them, probabilities are as the model gives them. */
  readonly calibrated: boolean
  /** What the request calls the parameters that errors name, where that is not what messages have. */
  readonly names: Names
}

export type Question = PredicateQuestion | ChoiceQuestion | ScoreQuestion | CountQuestion | FindQuestion

interface Asked {
  /** Where it stands in the request, for errors. */
  readonly param: Path
  /** Empty when the options say it all. */
  readonly instructions: Content
}

/** How likely it is that a statement is true, or that the answer to a question is yes. */
export interface PredicateQuestion extends Asked {
  readonly type: 'predicate'
  /** What counts as yes and as no; empty where nothing is said. */
  readonly yes: Content
  readonly no: Content
}

export interface ChoiceQuestion extends Asked {
  readonly type: 'choice'
  /** At least two. */
  readonly options: readonly Option[]
}

interface Option {
  /** True and false are yes and no. A string is not empty. */
  readonly value: string | boolean
  readonly description: Content
}

/** Which of the levels fits, from the lowest to the highest. */
export interface ScoreQuestion extends Asked {
  readonly type: 'score'
  /** At least two. */
  readonly levels: readonly Level[]
}

export interface Level {
  readonly label: string
  readonly description: Content
}

/** How many there are, from none to `most`. */
export interface CountQuestion extends Asked {
  readonly type: 'count'
  readonly most: number
}

/** Where something is. The instructions are one text, which names it. */
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

/** All that the questions hold, for whoever looks for their media. */
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
