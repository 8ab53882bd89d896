import { computed, type ReadonlySignal, signal } from '@preact/signals'
import { Reply } from '../chat/reply.ts'
import type { Clip, Mark } from '../marks/mark.ts'
import { type ReplyPiece, readReply } from '../marks/reply-text.ts'
import { type Attachment, BodyRoom, toParts } from '../media/attachment.ts'
import { attachments } from '../media/attachments.ts'
import { soundtrackOptions } from '../media/soundtrack.ts'
import { newId } from '../new-id.ts'
import { type AnswerOptions, answerFields } from '../server/answer-options.ts'
import { model } from '../server/connection.ts'
import type { MediaAtFault } from '../server/failure.ts'
import { knownModel } from '../server/load-models.ts'
import type { Message, Part } from '../server/wire.ts'
import { continueAsNew, goBackTo } from '../session/sessions.ts'
import type { AnnotationFormat } from '../widgets/fields/formats.ts'
import type { UndoStep } from '../widgets/notices/undo-notice.tsx'
import { counted } from '../widgets/quantities.ts'

/** What goes with every question. */
export interface AskOptions extends AnswerOptions {
  readonly format: AnnotationFormat
  readonly focus: boolean
  readonly system: string
  /** A JSON array of functions; empty for none. */
  readonly tools: string
  /** Whether a question is sent with the turns before it. */
  readonly remembers: boolean
}

export const DEFAULT_OPTIONS: AskOptions = {
  format: '',
  thinks: false,
  focus: false,
  system: '',
  temperature: null,
  maxTokens: null,
  tools: '',
  remembers: true,
}

export interface Turn {
  readonly id: string
  readonly question: string
  /** Media that the conversation has from this turn on. */
  readonly media: readonly Attachment[]
  readonly reply: Reply
  /** All media of the request, in order: what `asset_idx` counts. */
  readonly sent: readonly string[]
  /** The reply's text, read once for the panel and the stage. */
  readonly pieces: ReadonlySignal<readonly ReplyPiece[]>
}

export function turnOf(parts: Omit<Turn, 'pieces'>): Turn {
  const { id, reply, sent } = parts
  return { ...parts, pieces: computed(() => readReply(reply.text.value, id, sent)) }
}

export const draft = signal('')
export const options = signal<AskOptions>(DEFAULT_OPTIONS)
export const turns = signal<readonly Turn[]>([])

/** Changes to the turns, which can be undone until the next question. */
export const undoSteps = signal<readonly UndoStep[]>([])

/** The turn that was picked to have its marks on the stage; null for the last. */
export const pickedTurn = signal<string | null>(null)
/** The turn whose marks are on the stage. */
export const shownTurn = computed<Turn | undefined>(
  () => turns.value.find(({ id }) => id === pickedTurn.value) ?? turns.value.at(-1),
)
const shownPieces = computed(() => shownTurn.value?.pieces.value ?? [])
export const marks = computed<readonly Mark[]>(() =>
  shownPieces.value.flatMap((piece) => (piece.kind === 'annotation' ? piece.marks : [])),
)
export const clips = computed<readonly Clip[]>(() =>
  shownPieces.value.flatMap((piece) => (piece.kind === 'annotation' ? piece.clips : [])),
)

/** The draft as a turn, with the media on the stage that the conversation does not have yet; null when there is nothing. */
export function nextTurn(): Turn | null {
  const question = draft.value.trim()
  const before = options.value.remembers ? turns.value : []
  const known = new Set(before.flatMap(({ media }) => media.map(({ id }) => id)))
  const media = attachments.value.filter(({ id }) => !known.has(id))
  if (question === '' && media.length === 0) return null
  return newTurn(question, media)
}

function newTurn(question: string, media: readonly Attachment[]): Turn {
  return turnOf({ id: newId(), question, media, reply: new Reply(), sent: [] })
}

/** Sends the draft. */
export async function ask(): Promise<void> {
  const turn = nextTurn()
  if (turn === null) return
  turns.value = [...turns.value, turn]
  pickedTurn.value = null
  draft.value = ''
  undoSteps.value = []
  await send(turn)
}

/** Sends a turn again without those before it, as all later ones. It takes the media on the stage with it. */
export async function sendAlone(turn: Turn): Promise<void> {
  options.value = { ...options.value, remembers: false }
  const media = attachments.value
  turns.value = turns.value.map((one) => (one.id === turn.id ? turnOf({ ...one, media }) : one))
  await send(turn)
}

/** Sends a turn again without one of the media. */
export async function sendWithout(turn: Turn, gone: MediaAtFault): Promise<void> {
  turns.value = turns.value.map((one) => {
    const media = one.media.filter(({ id }) => id !== gone.id)
    return media.length === one.media.length ? one : turnOf({ ...one, media })
  })
  await send(turn)
}

/** Asks for another answer to a question. Removes later turns. */
export async function askAgain(turn: Turn): Promise<void> {
  await replaceFrom(turn, turn.question, turn.media)
}

/** Sends a changed question, with the media that were added since the last one. Removes later turns. */
export async function askChanged(turn: Turn, question: string): Promise<void> {
  const known = new Set(turns.value.flatMap(({ media }) => media.map(({ id }) => id)))
  await replaceFrom(turn, question, [...turn.media, ...attachments.value.filter(({ id }) => !known.has(id))])
}

async function replaceFrom(turn: Turn, question: string, media: readonly Attachment[]): Promise<void> {
  const before = turns.value
  const index = before.indexOf(turn)
  const later = before.length - index - 1
  for (const { reply } of before.slice(index)) reply.stop()
  const kept = before.slice(0, index)
  const again = newTurn(question, media)
  turns.value = [...kept, again]
  pickedTurn.value = null
  const undo = () => {
    again.reply.stop()
    turns.value = before
  }
  const said = later === 0 ? 'Asked again.' : `Asked again; ${counted(later, 'later turn')} removed.`
  undoSteps.value = [...undoSteps.value, { said, undo }]
  await send(again)
}

/** Sends a turn, for the first time or again. */
export async function send({ id }: Turn): Promise<void> {
  await knownModel()
  turns.value = turns.value.map((one, index) => {
    if (one.id !== id) return one
    // Since it was made, other turns may go with it. The places of their replies stay on the media that they were given.
    const sent = [...turnsBefore(index), one].flatMap(({ media }) => media.map((medium) => medium.id))
    return turnOf({ ...one, sent })
  })
  const turn = turns.value.find((one) => one.id === id)
  await turn?.reply.run(() => bodyOf(turn))
}

/** The turns that go with one. */
function turnsBefore(index: number): readonly Turn[] {
  return options.value.remembers ? turns.value.slice(0, index) : []
}

/** Keeps the conversation as a session, and begins a new one with everything else on the page. */
export async function startOver(): Promise<void> {
  for (const { reply } of turns.value) reply.stop()
  const left = await continueAsNew()
  if (left === null) return
  clearTurns()
  const undo = async () => {
    const written = draft.value
    await goBackTo(left)
    if (written !== '') draft.value = written
  }
  undoSteps.value = [{ said: 'Started over. The earlier conversation is in the sessions.', undo }]
}

export function clearTurns(): void {
  for (const { reply } of turns.value) reply.stop()
  turns.value = []
  undoSteps.value = []
  pickedTurn.value = null
}

/** The chat completion that a turn is, without `stream`. */
export async function bodyOf(turn: Pick<Turn, 'id' | 'question' | 'media'>): Promise<object> {
  const { format, focus, system, tools } = options.value
  const index = turns.value.findIndex(({ id }) => id === turn.id)
  const before = turnsBefore(index === -1 ? turns.value.length : index)
  const messages: Message[] = system === '' ? [] : [{ role: 'system', content: system }]
  const room = new BodyRoom()
  for (const earlier of before) messages.push(await userMessage(earlier, room), assistantMessage(earlier.reply))
  messages.push(await userMessage(turn, room))
  const vision = {
    ...(format === '' ? {} : { annotation_format: format }),
    ...(focus ? { internal_tools: { focus } } : {}),
    ...soundtrackOptions([...before, turn].flatMap(({ media }) => media)),
  }
  return {
    model: model.value?.id ?? '',
    messages,
    ...(Object.keys(vision).length > 0 ? { vision_config: vision } : {}),
    ...answerFields(options.value),
    ...(tools.trim() === '' ? {} : { tools: parseTools(tools) }),
  }
}

function parseTools(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`The tools are not valid JSON: ${(error as Error).message}`)
  }
}

async function userMessage({ question, media }: Pick<Turn, 'question' | 'media'>, room: BodyRoom): Promise<Message> {
  const parts: Part[] = await toParts(media, room)
  if (parts.length === 0) return { role: 'user', content: question }
  return { role: 'user', content: question === '' ? parts : [...parts, { type: 'text', text: question }] }
}

function assistantMessage({ text }: Reply): Message {
  return { role: 'assistant', content: text.value }
}
