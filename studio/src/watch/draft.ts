import { computed, signal } from '@preact/signals'
import { type Question, QuestionStore } from '../questions/question-store.ts'
import { type Failure, isAbort, toFailure } from '../server/failure.ts'
import { knownModel } from '../server/load-models.ts'
import { type Wait, withPatience } from '../server/patience.ts'
import { PUSHED, recordBody, source, sourceBody } from './source/camera-draft.ts'
import { createWatch } from './watches.ts'

/** When events start and end; null for the server's default. */
export interface Rule {
  readonly above: number | null
  readonly below: number | null
  readonly for_seconds: number | null
  readonly clear_seconds: number | null
}

/** A question to be answered with yes or no. */
export interface DraftQuestion extends Question {
  /** What a box is drawn around when an event starts; empty for none. */
  readonly find: string
  readonly rule: Rule
}

const RULE: Rule = { above: 0.7, below: 0.4, for_seconds: 2, clear_seconds: 5 }
export const FPS = 1
/** The API's limit. */
const LONGEST_NAME = 256

/** One behind another has its rule. */
export const questions = new QuestionStore<DraftQuestion>(64, (question, before) => ({
  ...question,
  find: '',
  rule: before?.rule ?? RULE,
}))
export const name = signal('')
export const fps = signal<number | null>(FPS)
export const isCreating = signal(false)
export const wait = signal<Wait | null>(null)
/** What the server does not accept. */
export const failure = signal<Failure | null>(null)
/** The questions that were sent, in their order. */
const sent = signal<readonly DraftQuestion[]>([])

export const asked = computed(() => questions.all.value.filter(({ text }) => text.trim() !== ''))

const SOURCE_FIELDS = [
  'source.type',
  'source.camera',
  'source.url',
  'source.username',
  'source.password',
  'source.certificate',
] as const
export type Field = 'name' | 'fps' | (typeof SOURCE_FIELDS)[number]
export type QuestionField = 'text' | 'find' | keyof Rule

/** Where the form shows a failure; null for above its buttons. */
type Place = { readonly field: Field } | { readonly question: string; readonly field: QuestionField }

const place = computed<Place | null>(() => {
  const param = failure.value?.param ?? ''
  const field = (['name', 'fps', ...SOURCE_FIELDS] as const).find((one) => one === param)
  if (field !== undefined) return { field }
  const [, number, path = ''] = /^questions\[(\d+)\](.*)$/.exec(param) ?? []
  const question = number === undefined ? undefined : sent.value[Number(number)]
  return question === undefined ? null : { question: question.id, field: fieldOf(path) }
})

function fieldOf(path: string): QuestionField {
  if (path.startsWith('.evidence')) return 'find'
  const member = /^\.event\.(\w+)$/.exec(path)?.[1]
  return member !== undefined && member in RULE ? (member as keyof Rule) : 'text'
}

/** What the server says of a field; null for nothing. @param question its id */
export function faultAt(field: Field | QuestionField, question?: string): string | null {
  const at = place.value
  if (at === null || failure.value === null || at.field !== field) return null
  if (('question' in at ? at.question : undefined) !== question) return null
  const { param, message } = failure.value
  const problem = message.replace(`Invalid '${param}': `, '')
  return problem[0]!.toUpperCase() + problem.slice(1)
}

/** A failure that belongs to no field. */
export const failureOfForm = computed(() => (place.value === null ? failure.value : null))

let abort: AbortController | null = null

export function stopCreating(): void {
  abort?.abort()
}

/** Registers the watch of the draft. */
export async function create(): Promise<void> {
  if (asked.value.length > 0 && (await register(bodyOf(asked.value), asked.value))) clearDraft()
}

/** Registers one that the shipped model can answer about the sample; the draft stays. @returns whether that worked */
export function createExample(): Promise<boolean> {
  const text = 'Is there a red circle?'
  const rule = { above: 0.7, below: 0.4, for_seconds: 0.5, clear_seconds: 1 }
  const asking = [{ id: '', text, find: 'red circle', rule }]
  const body = { ...bodyOf(asking), name: 'Red circle', source: { type: 'push' }, record: undefined, fps: 2 }
  return register(body, [])
}

/**
 * @param body without the model
 * @param asking the questions of the draft in it
 */
async function register(body: object, asking: readonly DraftQuestion[]): Promise<boolean> {
  if (isCreating.value) return false
  const own = new AbortController()
  abort = own
  isCreating.value = true
  failure.value = null
  sent.value = asking
  // The request drawer shows no password.
  const isNoted = source.value.password === ''
  try {
    const model = (await knownModel(own.signal))?.id ?? ''
    await withPatience(
      () => createWatch({ model, ...body }, isNoted, own.signal),
      (now) => {
        wait.value = now
      },
      own.signal,
    )
    return true
  } catch (error) {
    if (!isAbort(error)) failure.value = toFailure(error)
    return false
  } finally {
    wait.value = null
    isCreating.value = false
    abort = null
  }
}

export function clearDraft(): void {
  questions.replace([''])
  name.value = ''
  fps.value = FPS
  source.value = PUSHED
  failure.value = null
}

function bodyOf(asking: readonly DraftQuestion[]): object {
  return {
    name: name.value.trim() || null,
    source: sourceBody(source.value),
    record: recordBody(source.value),
    fps: fps.value ?? undefined,
    questions: asking.map(({ text, find, rule }, index) => ({
      name: nameOf(text.trim(), index),
      type: 'predicate',
      instructions: text.trim(),
      event: Object.fromEntries(Object.entries(rule).filter(([, value]) => value !== null)),
      ...(find.trim() === '' ? {} : { evidence: { type: 'x_box', instructions: find.trim() } }),
    })),
  }
}

/** Events have the question in words. Long ones may begin alike. */
function nameOf(text: string, index: number): string {
  const ending = `… ${index + 1}`
  return text.length > LONGEST_NAME ? text.slice(0, LONGEST_NAME - ending.length) + ending : text
}
