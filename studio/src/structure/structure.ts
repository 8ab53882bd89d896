import { computed, signal } from '@preact/signals'
import { Reply } from '../chat/reply.ts'
import { toParts } from '../media/attachment.ts'
import { attachments } from '../media/attachments.ts'
import { type AnswerOptions, answerFields } from '../server/answer-options.ts'
import { knownModel } from '../server/load-models.ts'
import type { Part } from '../server/wire.ts'
import type { UndoStep } from '../widgets/notices/undo-notice.tsx'
import { type Fault, faultOfJson, faultOfPattern, faultOfSchema } from './fault.ts'
import { STRUCTURE_EXAMPLES, type StructureExample, type StructureKind } from './structure-examples.ts'

export const DEFAULT_TEXTS: Readonly<Record<StructureKind, string>> = {
  schema: STRUCTURE_EXAMPLES[0]!.text,
  regex: STRUCTURE_EXAMPLES.find((one) => one.kind === 'regex')!.text,
}
export const NO_OPTIONS: AnswerOptions = { temperature: null, maxTokens: null, thinks: false }

export const kind = signal<StructureKind>('schema')
/** What is written for each kind: changing between them loses nothing. */
export const texts = signal(DEFAULT_TEXTS)
export const question = signal('')
export const undoSteps = signal<readonly UndoStep[]>([])
export const options = signal(NO_OPTIONS)

/** What was asked last, as it was. */
export interface AskedStructure {
  readonly kind: StructureKind
  readonly text: string
  readonly question: string
  readonly reply: Reply
}
export const asked = signal<AskedStructure | null>(null)

/** What the server did not take of the text that was asked with. */
export const refusal = signal<{ readonly asked: AskedStructure; readonly fault: Fault } | null>(null)

/** What is wrong with the text as it is now. */
export const fault = computed<Fault | null>(() => {
  const text = texts.value[kind.value]
  const own = kind.value === 'schema' && text.trim() !== '' ? faultOfJson(text) : null
  if (own !== null) return own
  return refusal.value?.asked.text === text ? refusal.value.fault : null
})

/** Counts the times that the cursor is to go to the fault. */
export const faultsToShow = signal(0)

export function setText(text: string): void {
  texts.value = { ...texts.value, [kind.value]: text }
}

/** Shows an example. What was written in its place can be brought back. */
export function loadExample(example: StructureExample): void {
  const before = { kind: kind.value, question: question.value, texts: texts.value }
  const isOwn = [texts.value.schema, texts.value.regex].some(
    (text) => !STRUCTURE_EXAMPLES.some((one) => one.text === text),
  )
  const undo = () => {
    kind.value = before.kind
    question.value = before.question
    texts.value = before.texts
  }
  undoSteps.value = isOwn ? [{ said: 'The example replaced what you wrote.', undo }] : []
  kind.value = example.kind
  question.value = example.question
  setText(example.text)
}

/** Asks for an answer of the form that is written. Faults in the text are shown at their place. */
export async function askStructured(): Promise<void> {
  const text = texts.value[kind.value]
  if (text.trim() === '' || question.value.trim() === '') return
  if (kind.value === 'schema' && faultOfJson(text) !== null) {
    faultsToShow.value++
    return
  }
  const asking = { kind: kind.value, text, question: question.value.trim(), reply: new Reply() }
  asked.value?.reply.stop()
  asked.value = asking
  undoSteps.value = []
  refusal.value = null
  const { reply } = asking
  await reply.run(() => bodyOf(asking))
  const failure = reply.failure.value
  if (failure === null || asked.value !== asking) return
  const found = asking.kind === 'schema' ? faultOfSchema(text, failure) : faultOfPattern(text, failure)
  if (found === null) return
  refusal.value = { asked: asking, fault: found }
  faultsToShow.value++
}

async function bodyOf({ kind: form, text, question: asks }: Omit<AskedStructure, 'reply'>): Promise<object> {
  const parts: Part[] = await toParts(attachments.value)
  return {
    model: (await knownModel())?.id ?? '',
    messages: [{ role: 'user', content: [...parts, { type: 'text', text: asks }] }],
    ...(form === 'regex'
      ? { regex: text }
      : {
          response_format: {
            type: 'json_schema',
            json_schema: { name: 'answer', strict: true, schema: JSON.parse(text) as unknown },
          },
        }),
    ...answerFields(options.value),
  }
}
