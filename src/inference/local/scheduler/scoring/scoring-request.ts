import type { ReadAnswer } from '../../../contract/generation.ts'
import { growTrees, type ReplyTree } from '../../../contract/reply-tree.ts'
import type { GroupIdentity } from '../sequences/sequence-group.ts'
import type { AdmittedQuestion, AdmittedScoring } from './question-admission.ts'
import type { ScoringLimits } from './scoring-limits.ts'

/** A question with what is known of its replies. It owns which of its trees are still to be computed. */
export class OpenQuestion {
  readonly question: AdmittedQuestion
  /** Still to be computed. */
  readonly trees: ReplyTree[]
  /** Whether it shares no call, because one that it shared has failed. */
  isAlone = false
  readonly #logProbs: number[]
  #isCounted = false

  constructor(question: AdmittedQuestion, limits: ScoringLimits) {
    this.question = question
    const nodes = Math.min(limits.nodes, limits.rows - question.tail.length)
    this.trees = growTrees(question.replies, { nodes, leaves: limits.leaves })
    this.#logProbs = question.replies.map(() => Number.NEGATIVE_INFINITY)
  }

  /** Takes in what was computed of a tree. @param logProbs of whole replies, by the tree's `ends`. */
  settle(tree: ReplyTree, logProbs: readonly number[]): void {
    this.trees.splice(this.trees.indexOf(tree), 1)
    for (const [at, { reply }] of tree.ends.entries()) this.#logProbs[reply] = logProbs[at]!
  }

  /** Prompt tokens that its first call computes: those of further ones are the same. */
  countTail(): number {
    const tokens = this.#isCounted ? 0 : this.question.tail.length
    this.#isCounted = true
    return tokens
  }

  get answer(): ReadAnswer {
    return { question: this.question.index, logProbs: this.#logProbs }
  }
}

/**
 * One request from its admission to its last answer. It owns which of its questions are still to be computed; the
 * reply scorer takes them in order.
 */
export class ScoringRequest {
  /** Ascending in order of arrival. */
  readonly id: number
  readonly organisation: string
  /** Whether it gives way to requests that are not. */
  readonly isBackground: boolean
  readonly work: AdmittedScoring
  readonly isTraced: boolean
  hasStarted = false
  /** Those of one prefix behind each other. */
  readonly #waiting: AdmittedQuestion[]
  readonly #limits: ScoringLimits
  /** Begun, in order. */
  readonly #open: OpenQuestion[] = []

  constructor(
    { id, organisation, isBackground = false }: GroupIdentity,
    work: AdmittedScoring,
    limits: ScoringLimits,
    isTraced: boolean,
  ) {
    this.id = id
    this.organisation = organisation
    this.isBackground = isBackground
    this.work = work
    this.isTraced = isTraced
    this.#limits = limits
    const first = work.questions[0]?.prefix
    this.#waiting = work.questions.toSorted((a, b) => Number(a.prefix !== first) - Number(b.prefix !== first))
  }

  get isFinished(): boolean {
    return this.#waiting.length + this.#open.length === 0
  }

  /** Questions that are not answered, the first one first: as many as are asked for, or all. */
  next(count: number): readonly OpenQuestion[] {
    while (this.#open.length < count) {
      const question = this.#waiting.shift()
      if (question === undefined) break
      this.#open.push(new OpenQuestion(question, this.#limits))
    }
    return this.#open.slice(0, count)
  }

  /** Ends a question. */
  close(question: OpenQuestion): void {
    this.#open.splice(this.#open.indexOf(question), 1)
  }
}
