import { computed, signal } from '@preact/signals'
import { type ReplyPiece, readReply } from '../marks/reply-text.ts'
import { newId } from '../new-id.ts'
import type { Failure } from '../server/failure.ts'

/** `unanswered`: stopped, or cut off by a failure of the whole call. */
export type RowStatus = 'waiting' | 'answering' | 'done' | 'failed' | 'unanswered'

/** One of the completions of a question. */
export interface Answer {
  readonly text: string
  readonly thoughts: string
  readonly finishReason: string | null
}

const NOTHING: Answer = { text: '', thoughts: '', finishReason: null }

/** What a row is kept as. */
export interface SavedRow {
  readonly question: string
  readonly sent: readonly string[]
  /** The model that was asked; null where a session does not say. */
  readonly model: string | null
  readonly answers: readonly Answer[]
  readonly tokens: number | null
}

/** The answers to a question as it was asked, while they arrive and afterwards. */
export class Row {
  /** Unique on the page: the beginning of its marks' ids. */
  readonly key = newId()
  readonly question: string
  /** The ids of all media of the request, in order: what `asset_idx` counts. */
  readonly sent: readonly string[]
  /** Null until it is known which. */
  model: string | null
  readonly status = signal<RowStatus>('waiting')
  readonly answers = signal<readonly Answer[]>([])
  /** Tokens of all its completions. */
  readonly tokens = signal<number | null>(null)
  readonly failure = signal<Failure | null>(null)
  /** The text of each answer, read once for the row and the stage. */
  readonly readings = computed<readonly (readonly ReplyPiece[])[]>(() =>
    this.answers.value.map(({ text }, index) => readReply(text, `${this.key}/${index}`, this.sent)),
  )

  constructor(question: string, n: number, sent: readonly string[], model: string | null) {
    this.question = question
    this.sent = sent
    this.model = model
    this.answers.value = Array.from({ length: n }, () => NOTHING)
  }

  append(index: number, text: string, thought: string): void {
    this.status.value = 'answering'
    this.answers.value = this.answers.value.map((answer, i) =>
      i === index ? { ...answer, text: answer.text + text, thoughts: answer.thoughts + thought } : answer,
    )
  }

  finish(answers: readonly Answer[], tokens: number): void {
    this.answers.value = answers
    this.tokens.value = tokens
    this.status.value = 'done'
  }

  fail(failure: Failure): void {
    this.failure.value = failure
    this.status.value = 'failed'
  }

  /** Ends it where it is, if it has not ended. */
  cut(): void {
    if (this.status.value === 'waiting' || this.status.value === 'answering') this.status.value = 'unanswered'
  }

  save(): SavedRow {
    const { question, sent, model } = this
    return { question, sent, model, answers: this.answers.value, tokens: this.tokens.value }
  }

  static restore({ question, sent, model, answers, tokens }: SavedRow): Row {
    const row = new Row(question, answers.length, sent, model)
    row.answers.value = answers
    row.tokens.value = tokens
    row.status.value = tokens === null ? 'unanswered' : 'done'
    return row
  }
}
