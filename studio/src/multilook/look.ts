import { batch, computed, signal } from '@preact/signals'
import type { Clip, Mark } from '../marks/mark.ts'
import type { ReplyPiece } from '../marks/reply-text.ts'
import { toParts, withUploads } from '../media/attachment.ts'
import { attachments } from '../media/attachments.ts'
import type { Question } from '../questions/question-store.ts'
import { answerFields } from '../server/answer-options.ts'
import { callEvents } from '../server/call.ts'
import { type Failure, failureInStream, isAbort, toFailure } from '../server/failure.ts'
import { knownModel } from '../server/load-models.ts'
import { type Wait, withPatience } from '../server/patience.ts'
import type { Message, Part } from '../server/wire.ts'
import type { LookFacts } from './look-facts.ts'
import { lookOptions } from './look-options.ts'
import { questions } from './questions.ts'
import { Row } from './row.ts'
import type { LookEvent, LookUsage } from './wire.ts'

/** The answers, by the id of their question. */
export const rows = signal<ReadonlyMap<string, Row>>(new Map())
export const isLooking = signal(false)
/** Why the whole call has failed. */
export const failure = signal<Failure | null>(null)
/** Why the page waits; null while it does not. */
export const wait = signal<Wait | null>(null)
/** What the latest call about all questions took. */
export const facts = signal<LookFacts | null>(null)

/** Whose marks the stage shows: all answers', those of one question, or of one completion of it. */
export const picked = signal<{ readonly question: string; readonly answer: number | null } | null>(null)

const shownPieces = computed<readonly ReplyPiece[]>(() => {
  const pick = picked.value
  const shown = pick && rows.value.get(pick.question)
  if (!shown) return [...rows.value.values()].flatMap((row) => row.readings.value.flat())
  return pick.answer === null ? shown.readings.value.flat() : (shown.readings.value[pick.answer] ?? [])
})
export const marks = computed<readonly Mark[]>(() =>
  shownPieces.value.flatMap((piece) => (piece.kind === 'annotation' ? piece.marks : [])),
)
export const clips = computed<readonly Clip[]>(() =>
  shownPieces.value.flatMap((piece) => (piece.kind === 'annotation' ? piece.clips : [])),
)

/** The questions that say something. */
export const asked = computed<readonly Question[]>(() => questions.all.value.filter(({ text }) => text.trim() !== ''))

/** The ids of questions that were asked and have no answer: they failed, or the call was stopped. */
export const unanswered = computed<readonly string[]>(() =>
  asked.value
    .map(({ id }) => id)
    .filter((id) => ['failed', 'unanswered'].includes(rows.value.get(id)?.status.value ?? '')),
)

let abort: AbortController | null = null
/** The questions that the latest call has not answered. */
let open: readonly string[] = []

/** Asks all questions in one call. */
export function lookAll(): Promise<void> {
  return look(asked.value, true)
}

/** Asks some questions again, and leaves the answers to the others. */
export function lookAgain(ids: readonly string[]): Promise<void> {
  return look(
    asked.value.filter(({ id }) => ids.includes(id)),
    false,
  )
}

/** Asks again what the call that failed has left open. */
export function retry(): Promise<void> {
  return open.length === asked.value.length ? lookAll() : lookAgain(open)
}

/** Forgets the answers to a question that is removed. */
export function forgetRow(id: string): void {
  if (!rows.value.has(id)) return
  const left = new Map(rows.value)
  left.delete(id)
  rows.value = left
  if (picked.value?.question === id) picked.value = null
}

export function stopLooking(): void {
  abort?.abort()
}

/** Forgets all answers, and those that are on their way: another session follows. */
export function forgetLook(): void {
  abort?.abort()
  abort = null
  isLooking.value = false
  wait.value = null
  rows.value = new Map()
  facts.value = null
  failure.value = null
  picked.value = null
}

async function look(chosen: readonly Question[], isWhole: boolean): Promise<void> {
  if (isLooking.value || chosen.length === 0) return
  const own = new AbortController()
  abort = own
  const sent = attachments.value.map(({ id }) => id)
  const asking = chosen.map(({ text }) => new Row(text.trim(), lookOptions.value.n, sent, null))
  const before = { rows: rows.value, facts: facts.value, picked: picked.value }
  const started = chosen.map(({ id }, index) => [id, asking[index]!] as const)
  rows.value = new Map(isWhole ? started : [...rows.value, ...started])
  if (isWhole) {
    facts.value = null
    picked.value = null
  }
  isLooking.value = true
  failure.value = null
  try {
    const onWait = (now: Wait | null) => {
      wait.value = now
    }
    const asker = (await knownModel(own.signal))?.id ?? ''
    for (const row of asking) row.model = asker
    const taken = await withUploads(
      () =>
        bodyOf(
          asking.map(({ question }) => question),
          asker,
        ),
      (body) => withPatience(() => stream(body, asking, own.signal), onWait, own.signal),
    )
    if (isWhole) facts.value = taken
  } catch (error) {
    if (abort !== own) return
    // Where every question has an error of its own, the call's is one of them.
    if (!isAbort(error) && !asking.every(({ status }) => status.value === 'failed')) failure.value = toFailure(error)
    if (asking.every(({ status }) => status.value === 'waiting')) {
      // Nothing has come: what was there before stays.
      rows.value = before.rows
      facts.value = before.facts
      picked.value = before.picked
    }
  } finally {
    for (const row of asking) row.cut()
    if (abort === own) {
      open = started.flatMap(([id, { status }]) => (status.value === 'done' ? [] : [id]))
      wait.value = null
      isLooking.value = false
      abort = null
    }
  }
}

/** 64 answers that are shown piece by piece would keep the page busy for longer than the server. */
const SHOW_EVERY_MS = 50

/** Reads the answers into their rows. @returns what the call took. */
async function stream(body: object, asking: readonly Row[], signal: AbortSignal): Promise<LookFacts> {
  const started = performance.now()
  let usage: LookUsage | null = null
  const options = { method: 'POST', body, accept: 'text/event-stream', signal } as const
  const arrived: { readonly event: LookEvent; readonly row: Row }[] = []
  let timer: ReturnType<typeof setTimeout> | undefined
  const show = () => {
    timer = undefined
    batch(() => {
      for (const { event, row } of arrived.splice(0)) take(event, row)
    })
  }
  try {
    for await (const event of callEvents<LookEvent>('/v1/chat/completions/multilook', options)) {
      const row = asking[event.prompt_index ?? -1]
      if (row === undefined) usage = (event.usage as LookUsage | undefined) ?? usage
      else arrived.push({ event, row })
      timer ??= setTimeout(show, SHOW_EVERY_MS)
    }
  } finally {
    clearTimeout(timer)
    show()
  }
  const answered = asking.filter(({ status }) => status.value === 'done')
  return {
    usage,
    questions: asking.length,
    failed: asking.length - answered.length,
    answers: answered.reduce((total, { answers }) => total + answers.value.length, 0),
    milliseconds: performance.now() - started,
  }
}

function take({ index, delta, completions, usage, error }: LookEvent, row: Row): void {
  if (delta !== undefined) row.append(index!, delta.content ?? '', delta.reasoning_content ?? '')
  else if (error) row.fail(failureInStream({ ...error, param: error.param ?? null, code: error.code ?? null }))
  else if (completions) {
    const answers = completions.map(({ message, finish_reason }) => ({
      text: message.content ?? '',
      thoughts: message.reasoning_content ?? '',
      finishReason: finish_reason,
    }))
    row.finish(answers, usage!.completion_tokens)
  }
}

/** The request about all media on the stage. */
async function bodyOf(prompts: readonly string[], asker: string): Promise<object> {
  const { n, format, context } = lookOptions.value
  const parts: Part[] = await toParts(attachments.value)
  if (context.trim() !== '') parts.push({ type: 'text', text: context.trim() })
  const shared: Message[] = parts.length === 0 ? [] : [{ role: 'user', content: parts }]
  return {
    model: asker,
    context: shared,
    prompts,
    ...(n === 1 ? {} : { n }),
    ...answerFields(lookOptions.value),
    ...(format === '' ? {} : { vision_config: { annotation_format: format } }),
  }
}
