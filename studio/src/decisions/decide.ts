import { computed, signal } from '@preact/signals'
import type { Clip, Mark } from '../marks/mark.ts'
import { toParts, withUploads } from '../media/attachment.ts'
import { attachments } from '../media/attachments.ts'
import { carrying } from '../media/known-media.ts'
import type { LookFacts } from '../multilook/look-facts.ts'
import { callJson } from '../server/call.ts'
import { type Failure, isAbort, toFailure } from '../server/failure.ts'
import { knownModel } from '../server/load-models.ts'
import { type Wait, withPatience } from '../server/patience.ts'
import { type Decided, placesOf, toAnswer } from './answer.ts'
import { questions, type TypedQuestion, toBody } from './questions.ts'
import type { DecisionBody } from './wire.ts'

/** What the server does not take about a question. */
export interface QuestionFault {
  /** As it was asked: one that has changed since is no longer at fault. */
  readonly question: TypedQuestion
  /** As the server names the field: `questions[3].choices[1].value`. */
  readonly param: string
  readonly message: string
}

/** The answers, by the id of their question. */
export const decided = signal<ReadonlyMap<string, Decided>>(new Map())
/** Text that all questions share, behind the media. */
export const context = signal('')
export const isDeciding = signal(false)
export const fault = signal<QuestionFault | null>(null)
/** Why there are no answers, where it is about no question. */
export const failure = signal<Failure | null>(null)
/** Why the page waits; null while it does not. */
export const wait = signal<Wait | null>(null)
/** What the latest call took. */
export const facts = signal<LookFacts | null>(null)

const places = computed(() =>
  [...decided.value].map(([id, { question, answer, media }]) =>
    placesOf(answer, placeId(id), question.text.trim(), media),
  ),
)
export const marks = computed<readonly Mark[]>(() => places.value.flatMap((one) => one.marks))
export const clips = computed<readonly Clip[]>(() => places.value.flatMap((one) => one.clips))

/** The questions that say something. */
export const asked = computed(() => questions.all.value.filter(({ text }) => text.trim() !== ''))

let abort: AbortController | null = null

/** Id of the mark or the clip that shows the answer to a question. */
export function placeId(question: string): string {
  return `decision/${question}`
}

export function stopDeciding(): void {
  abort?.abort()
}

/** Forgets all answers, and those that are on their way: another session follows. */
export function forgetAnswers(): void {
  abort?.abort()
  abort = null
  isDeciding.value = false
  wait.value = null
  decided.value = new Map()
  facts.value = null
  failure.value = null
  fault.value = null
}

/** Forgets the answer to a question that is removed. */
export function forgetAnswer(id: string): void {
  decided.value = new Map([...decided.value].filter(([known]) => known !== id))
}

/** Asks all questions in one call. Until it has answered, the answers before stay. */
export async function decideAll(): Promise<void> {
  const asking = asked.value
  if (isDeciding.value || asking.length === 0) return
  const own = new AbortController()
  abort = own
  const media = attachments.value
  isDeciding.value = true
  failure.value = null
  fault.value = null
  try {
    const asker = (await knownModel(own.signal))?.id ?? ''
    const onWait = (now: Wait | null) => {
      wait.value = now
    }
    const call = (body: object) =>
      timed(callJson<DecisionBody>('/v1/decisions', { method: 'POST', body, signal: own.signal }))
    const [response, milliseconds] = await withUploads(
      () => bodyOf(asking, asker),
      (body) => withPatience(() => call(body), onWait, own.signal),
    )
    const answers = response.answers.map(toAnswer)
    decided.value = new Map(
      asking.map((question, index) => {
        const answer = answers[index] ?? { kind: 'none' as const }
        const kind = answer.kind === 'clip' ? 'video' : 'image'
        const shown = media.findLast((one) => one.kind === kind) ?? media.at(-1)
        return [question.id, { question, answer, media: shown?.id ?? '', model: asker }]
      }),
    )
    facts.value = factsOf(response, asking, milliseconds)
  } catch (error) {
    if (isAbort(error) || abort !== own) return
    const caught = toFailure(error)
    fault.value = faultOf(caught, asking)
    if (fault.value === null) failure.value = caught
  } finally {
    if (abort === own) {
      wait.value = null
      isDeciding.value = false
      abort = null
    }
  }
}

async function timed<Value>(promise: Promise<Value>): Promise<readonly [Value, number]> {
  const started = performance.now()
  return [await promise, performance.now() - started]
}

/** The request about all media on the stage. */
async function bodyOf(asking: readonly TypedQuestion[], asker: string): Promise<object> {
  // OpenAI's own part for images; the others are those of chat messages.
  const media = attachments.value
  const parts: object[] = (await toParts(media)).map((part, index) =>
    part.type === 'image_url' ? carrying(media[index]!, { type: 'input_image', image_url: part.image_url.url }) : part,
  )
  if (context.value.trim() !== '') parts.push({ type: 'input_text', text: context.value.trim() })
  return {
    model: asker,
    input: parts.length === 0 ? '' : [{ role: 'user', content: parts }],
    questions: asking.map(toBody),
  }
}

/** What is read from probabilities shares one reading of the context; each kind of place has one of its own. */
const SEARCHES = new Set(['x_box', 'x_point', 'x_clip'])

function factsOf({ answers, usage }: DecisionBody, asking: readonly TypedQuestion[], milliseconds: number): LookFacts {
  const failed = answers.filter(({ type }) => type === 'refusal').length
  return {
    usage: {
      prompt_tokens: usage.input_tokens,
      completion_tokens: usage.output_tokens,
      prompt_tokens_details: { cached_tokens: usage.input_tokens_details.cached_tokens },
    },
    questions: asking.length,
    failed,
    answers: asking.length - failed,
    milliseconds,
    readings: new Set(asking.map(({ type }) => (SEARCHES.has(type) ? type : 'read'))).size,
  }
}

function faultOf({ param, message }: Failure, asking: readonly TypedQuestion[]): QuestionFault | null {
  const question = asking[Number(/^questions\[(\d+)\]/.exec(param ?? '')?.[1])]
  if (question === undefined || param === null) return null
  const problem = message.replace(`Invalid '${param}': `, '').replace(/[.]?$/, '.')
  return { question, param, message: problem[0]!.toUpperCase() + problem.slice(1) }
}
