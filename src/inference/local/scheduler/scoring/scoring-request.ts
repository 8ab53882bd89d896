import type { ReadAnswer } from '../../../contract/generation.ts'
import type { Priority } from '../../../contract/priority.ts'
import { growTrees, type ReplyTree } from '../../../contract/reply-tree.ts'
import type { GroupIdentity } from '../sequences/sequence-group.ts'
import type { AdmittedQuestion, AdmittedScoring } from './question-admission.ts'
import type { ScoringLimits } from './scoring-limits.ts'

/** A question and the scores of its replies so far. It owns the list of trees still to be computed. */
export class OpenQuestion {
  readonly question: AdmittedQuestion
  /** Still to be computed. */
  readonly trees: ReplyTree[]
  /** Whether it gets separate calls, because a shared one has failed. */
  isAlone = false
  readonly #logProbs: number[]
  #isCounted = false

  constructor(question: AdmittedQuestion, limits: ScoringLimits) {
    this.question = question
    const nodes = Math.min(limits.nodes, limits.rows - question.tail.length)
    this.trees = growTrees(question.replies, { nodes, leaves: limits.leaves }, question.goesOn)
    this.#logProbs = question.replies.map(() => Number.NEGATIVE_INFINITY)
  }

  /** Records the result of a tree. @param logProbs of whole replies, by the tree's `ends`. */
  settle(tree: ReplyTree, logProbs: readonly number[]): void {
    this.trees.splice(this.trees.indexOf(tree), 1)
    for (const [at, { reply }] of tree.ends.entries()) this.#logProbs[reply] = logProbs[at]!
  }

  /** Prompt tokens that its first call computes; further calls compute the same ones again. */
  countTail(): number {
    const tokens = this.#isCounted ? 0 : this.question.tail.length
    this.#isCounted = true
    return tokens
  }

  /** Null before the last piece of a text. */
  get answer(): ReadAnswer | null {
    const { index: question, text } = this.question
    if (text === undefined) return { question, logProbs: this.#logProbs }
    return text.isLast ? { question, logProbs: [], tokens: text.scored } : null
  }
}

/**
 * One request from its admission to its last answer. It owns the list of unanswered questions; the reply scorer takes them in
 * order.
 */
export class ScoringRequest {
  /** Ascending in order of arrival. */
  readonly id: number
  readonly organisation: string
  readonly priority: Priority
  /** Whether its prefix is not kept. */
  readonly isTransient: boolean
  readonly work: AdmittedScoring
  readonly isTraced: boolean
  hasStarted = false
  /** Grouped by prefix. */
  readonly #waiting: AdmittedQuestion[]
  readonly #limits: ScoringLimits
  /** Begun, in order. */
  readonly #open: OpenQuestion[] = []

  constructor(
    { id, organisation, priority = 'interactive', isTransient = false }: GroupIdentity,
    work: AdmittedScoring,
    limits: ScoringLimits,
    isTraced: boolean,
  ) {
    this.id = id
    this.organisation = organisation
    this.priority = priority
    this.isTransient = isTransient
    this.work = work
    this.isTraced = isTraced
    this.#limits = limits
    const first = work.questions[0]?.prefix
    this.#waiting = work.questions.toSorted((a, b) => Number(a.prefix !== first) - Number(b.prefix !== first))
  }

  get isFinished(): boolean {
    return this.#waiting.length + this.#open.length === 0
  }

  /** Whether any of its questions continues the prefix of this name. */
  has(prefix: string): boolean {
    return this.work.questions.some((question) => question.prefix.name === prefix)
  }

  /** The first `count` unanswered questions, or all. */
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
