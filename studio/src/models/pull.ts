import { computed, signal } from '@preact/signals'
import { modeId, serverSection } from '../mode-choice.ts'
import { callEvents } from '../server/call.ts'
import { Failure, isAbort, toFailure } from '../server/failure.ts'
import { loadModels } from '../server/load-models.ts'
import { askStatus } from '../server-status/status.ts'
import type { CatalogueModel } from './catalogue.ts'
import { beginWith } from './first-question.ts'
import type { PullChoice, PullEvent } from './pull-event.ts'

/** A file that is being fetched. */
export interface FileProgress {
  readonly file: string
  readonly done: number
  readonly total: number
  readonly bytesPerSecond: number
  readonly secondsLeft: number | null
  /** `checking`: all bytes are there, and their hash is computed. */
  readonly stage: 'fetching' | 'checking' | 'found'
}

export type PullState =
  | { readonly step: 'idle' }
  /** The hub is asked what there is. */
  | { readonly step: 'looking' }
  | { readonly step: 'choosing'; readonly choice: PullChoice }
  | { readonly step: 'pulling'; readonly model: string; readonly files: readonly FileProgress[] }
  | { readonly step: 'done'; readonly id: string; readonly reason: string | null }

/** What the user typed: a repository of the hub, or its address. */
export const address = signal('')
/** Whether the image encoder is left out. */
export const textOnly = signal(false)
export const quant = signal<string | null>(null)

export const pullState = signal<PullState>({ step: 'idle' })
/** Why the last step did not work. The steps before it are still there. */
export const pullFailure = signal<Failure | null>(null)
/** The latest remark of the server: a warning, a pause before another attempt. */
export const pullNote = signal<string | null>(null)

export const chosenOption = computed(() => {
  const state = pullState.value
  if (state.step !== 'choosing') return null
  return state.choice.options.find((option) => option.quant === quant.value) ?? null
})

let running = new AbortController()
let lastTry = look
/** When a pull was cancelled; the server takes some moments to end it. */
let cancelledAt = Number.NEGATIVE_INFINITY
const ENDING_MS = 8000
const AGAIN_MS = 500

/** Tries again what did not work. */
export function retryPull(): Promise<void> {
  return lastTry()
}

/** Whether the page shows what is fetched. */
export function showsPull(): boolean {
  return modeId.value === 'server' && serverSection.value === 'get'
}

/** Fetches a model of the catalogue in the quantisation that suits the server. */
export async function getModel(entry: CatalogueModel): Promise<void> {
  lastTry = () => getModel(entry)
  textOnly.value = false
  await fetchModel(entry.title, `${entry.repository}:${entry.quant}`, { step: 'idle' })
}

/** Asks which other quantisations there are of a model of the catalogue. */
export async function lookAtSizes({ repository }: CatalogueModel): Promise<void> {
  address.value = repository
  textOnly.value = false
  await look()
}

/** Asks what the repository has. Nothing is fetched. */
export async function look(): Promise<void> {
  lastTry = look
  const model = address.value.trim()
  if (model === '') return
  await run({ step: 'looking' }, { step: 'idle' }, async (signal) => {
    for await (const event of pull({ model, dry_run: true }, signal)) {
      if (event.type === 'note') pullNote.value = event.message
      if (event.type !== 'choice') continue
      pullNote.value = null
      quant.value = event.options.find(({ chosen }) => chosen)?.quant ?? null
      pullState.value = { step: 'choosing', choice: event }
    }
  })
}

/** Fetches what was chosen. What was fetched before it stopped is kept by the server. */
export async function pullChosen(): Promise<void> {
  lastTry = pullChosen
  const state = pullState.value
  const option = chosenOption.value
  if (state.step !== 'choosing' || option === null) return
  const { choice } = state
  const named = `${choice.model}:${option.quant}`
  // An address may name a branch, which the short form cannot. What does not fit has to be named.
  const model = option.chosen && option.fits !== 'no' ? address.value.trim() : named
  await fetchModel(named, model, state)
}

function fetchModel(title: string, model: string, back: PullState): Promise<void> {
  return run({ step: 'pulling', model: title, files: [] }, back, async (signal) => {
    for await (const event of pull({ model }, signal)) await note(event)
  })
}

/** Ends what is under way; the same pull goes on later where it stopped. */
export function cancelPull(): void {
  if (pullState.value.step === 'pulling') cancelledAt = performance.now()
  running.abort()
}

/** Back to the beginning. */
export function closePull(): void {
  cancelPull()
  pullState.value = { step: 'idle' }
  pullFailure.value = null
  pullNote.value = null
}

/** Goes on with what was fetched. */
export async function usePulled(id: string): Promise<void> {
  address.value = ''
  closePull()
  await beginWith(id)
}

type Body = { readonly model: string; readonly dry_run?: boolean }

async function* pull(body: Body, signal: AbortSignal): AsyncGenerator<PullEvent> {
  const whole = textOnly.value ? { ...body, projector: 'none' } : body
  for (;;) {
    try {
      yield* callEvents<PullEvent>('/v1/models/pull', { method: 'POST', body: whole, signal })
      return
    } catch (error) {
      const isEnding = error instanceof Failure && error.code === 'pull_in_progress'
      if (!isEnding || performance.now() - cancelledAt > ENDING_MS) throw error
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
      signal.throwIfAborted()
    }
  }
}

/** @param back the state that follows when it fails or is cancelled. */
async function run(state: PullState, back: PullState, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  running.abort()
  const own = new AbortController()
  running = own
  pullFailure.value = null
  pullNote.value = null
  pullState.value = state
  try {
    await work(own.signal)
    if (pullState.value.step === state.step)
      throw new Failure('broken-off', 'The server closed the connection without an answer.')
  } catch (error) {
    if (running !== own) return
    pullNote.value = null
    // Aborted by `closePull`: there is nothing to go back to.
    if (pullState.value.step === state.step) pullState.value = back
    if (!isAbort(error)) pullFailure.value = toFailure(error)
  }
}

async function note(event: PullEvent): Promise<void> {
  switch (event.type) {
    case 'note':
      pullNote.value = event.message
      return
    case 'progress':
      pullNote.value = null
      noteFile(event.file, {
        done: event.done_bytes,
        total: event.total_bytes,
        bytesPerSecond: event.bytes_per_second,
        secondsLeft: event.seconds_left,
      })
      return
    case 'found':
      noteFile(event.file, { stage: 'found' })
      return
    case 'check':
      noteFile(event.file, { stage: 'checking' })
      return
    case 'done':
      await Promise.all([loadModels(), askStatus()])
      pullState.value = { step: 'done', id: event.id, reason: event.served ? null : (event.reason ?? '') }
      // A user who waits for it continues at once; others are asked.
      if (event.served && showsPull()) await usePulled(event.id)
  }
}

const NEW: FileProgress = { file: '', done: 0, total: 0, bytesPerSecond: 0, secondsLeft: null, stage: 'fetching' }

function noteFile(file: string, change: Partial<FileProgress>): void {
  const state = pullState.value
  if (state.step !== 'pulling') return
  const known = state.files.find((one) => one.file === file)
  const next = { ...(known ?? { ...NEW, file }), ...change }
  const files = known ? state.files.map((one) => (one === known ? next : one)) : [...state.files, next]
  pullState.value = { ...state, files }
}
