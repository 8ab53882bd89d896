import { effect, signal } from '@preact/signals'
import type { Attachment } from '../media/attachment.ts'
import { nameMedia } from '../media/known-media.ts'
import { newId } from '../new-id.ts'
import { ofTab } from '../storage.ts'
import { loadParts, sessionParts } from './registry.ts'
import { type SessionFile, writeSessionFile } from './session-file.ts'
import { holdNewSession, holdSession } from './session-lock.ts'
import {
  deleteSession,
  listSessions,
  readSession,
  renameSession,
  type SavedMedia,
  type SessionContent,
  type SessionEntry,
  writeSession,
} from './session-store.ts'

/*
 * The page always shows one session, and saves it by itself soon after something has changed. A session comes into being
 * when there is something to keep.
 */

/** The key of this tab's session, over reloads. */
const CURRENT = 'lookout-session'
/** Changes within this time, in ms, are saved together: a reply changes with each token. */
const SAVE_AFTER_MS = 500
/** A page that is being loaded again may still hold its session. */
const RELOAD_MS = 700

export const currentId = signal(newId())
/** Latest first; as they were when the list was last read. */
export const entries = signal<readonly SessionEntry[]>([])
/** Why the session is not kept: a sentence. */
export const sessionProblem = signal<string | null>(null)
/** Why a session or a part of it was not opened: a sentence. */
export const sessionNote = signal<string | null>(null)

let title = ''
let isNamed = false
/** What parts of other pages than this one have saved. */
let foreign: SessionContent['parts'] = {}
let opened: readonly Attachment[] = []
/** What the current session was last saved as; null when it is not in the store. */
let stored: string | null = null
/** What was last saved to a file. */
let filed: string | null = null
let saving: Promise<void> = Promise.resolve()

/** Shows the session that this tab had, or else the latest that no other tab has. Then keeps what happens. */
export async function beginSessions(): Promise<void> {
  try {
    entries.value = await listSessions()
    const found = await firstHeld()
    if (found !== null) await show(found)
    else await holdNew()
  } catch (error) {
    problemWith(error)
    await holdNew()
  }
  watchChanges()
  for (const name of ['pagehide', 'visibilitychange']) addEventListener(name, () => void saveNow())
}

/** @returns the session to begin with, which this tab now holds; null for a new one. */
async function firstHeld(): Promise<string | null> {
  const last = ofTab.getItem(CURRENT)
  // A tab that has begun a session does not go on with an older one.
  if (last !== null) {
    const isKept = entries.value.some(({ id }) => id === last)
    return isKept && (await holdSession(last, RELOAD_MS)) ? last : null
  }
  for (const { id } of entries.value) if (await holdSession(id)) return id
  return null
}

/** Saves what is on the page and begins an empty session. @param loses whether to go on when it cannot be saved */
export async function beginSession(loses = false): Promise<void> {
  if ((await leave()) || loses) await showNew({ parts: {}, media: [] }, null)
}

/** Saves what is on the page and shows another session. */
export async function openSession(id: string): Promise<void> {
  if (id === currentId.value || !(await leave())) return
  try {
    if (await holdSession(id)) await show(id)
    else sessionNote.value = 'That session is open in another tab.'
  } catch (error) {
    problemWith(error)
  }
}

/** Saves what is on the page, and goes on with it as a new session. @returns the saved one; null if it cannot be kept. */
export async function continueAsNew(): Promise<string | null> {
  if (!(await leave())) return null
  const left = currentId.value
  beginNew(null)
  await holdNew()
  return left
}

/** Shows the session that `continueAsNew` saved, and deletes the new one. */
export async function goBackTo(id: string): Promise<void> {
  const made = currentId.value
  await openSession(id)
  if (currentId.value === id) await remove(made)
}

/** Shows the session of a file, as a new one. */
export async function openSessionFile(file: SessionFile): Promise<void> {
  if (!(await leave())) return
  await showNew(file, file.title)
  await saveNow()
}

export async function rename(id: string, given: string): Promise<void> {
  const name = given.trim().slice(0, 200)
  if (name === '') return
  if (id === currentId.value) {
    title = name
    isNamed = true
  }
  await attempt(() => renameSession(id, name))
}

/** Reads the list again. */
export function listAgain(): Promise<void> {
  return attempt(async () => {})
}

/** Deletes a session for good. The current one is emptied. */
export async function remove(id: string): Promise<void> {
  await saving
  if (id === currentId.value) await showNew({ parts: {}, media: [] }, null)
  await attempt(() => deleteSession(id))
}

/** The session on the page as a file. */
export async function currentAsFile(): Promise<{ readonly blob: Blob; readonly name: string }> {
  const content = snapshot()
  const shown = titleOf()
  const blob = await writeSessionFile({ ...content, title: shown })
  filed = stateOf(content)
  return { blob, name: `${fileNameOf(shown)}.lookout.json` }
}

/** Saves at once what has changed. @returns whether all of it is kept. */
function saveNow(): Promise<boolean> {
  const saved = saving.then(save)
  saving = saved.then(() => {})
  return saved
}

async function save(): Promise<boolean> {
  const content = snapshot()
  if (stored === null && !isWorthKeeping(content)) return true
  const state = stateOf(content)
  if (state === stored) return true
  const bytes = content.media.reduce((sum, { blob }) => sum + blob.size, state.length)
  const own = { id: currentId.value, title: titleOf(), isNamed, savedAt: Date.now(), bytes }
  try {
    const entry = await writeSession(own, content)
    if (entry.isNamed && entry.id === currentId.value) {
      title = entry.title
      isNamed = true
    }
    stored = state
    entries.value = [entry, ...entries.value.filter(({ id }) => id !== entry.id)]
    sessionProblem.value = null
    return true
  } catch (error) {
    problemWith(error)
    return false
  }
}

function isWorthKeeping({ parts }: SessionContent): boolean {
  const asides = new Set(sessionParts().flatMap(({ name, isAside }) => (isAside ? [name] : [])))
  return Object.keys(parts).some((name) => !asides.has(name))
}

/** What is saved, as a text to compare. Media does not change. */
function stateOf({ parts, media }: SessionContent): string {
  return JSON.stringify([currentId.value, titleOf(), parts, media.map(({ id }) => id)])
}

/** Before another session is shown. @returns false when that would lose what is on the page. */
async function leave(): Promise<boolean> {
  return (await saveNow()) || filed === stateOf(snapshot())
}

async function show(id: string): Promise<void> {
  const content = await readSession(id)
  if (content === null) throw new Error('It no longer exists.')
  await loadParts(Object.keys(content.parts))
  const entry = entries.value.find((one) => one.id === id)
  currentId.value = id
  title = entry?.title ?? ''
  isNamed = entry?.isNamed ?? false
  restore(content)
  // It is saved again when something changes.
  stored = stateOf(snapshot())
  ofTab.setItem(CURRENT, id)
}

async function showNew(content: SessionContent, name: string | null): Promise<void> {
  await loadParts(Object.keys(content.parts))
  beginNew(name)
  restore(content)
  await holdNew()
}

function beginNew(name: string | null): void {
  currentId.value = newId()
  title = name ?? ''
  isNamed = name !== null
  stored = null
  sessionProblem.value = null
}

async function holdNew(): Promise<void> {
  ofTab.setItem(CURRENT, currentId.value)
  await holdNewSession(currentId.value)
}

function snapshot(): SessionContent {
  const media = new Map<string, SavedMedia>()
  const keep = ({ url: _, ...attachment }: Attachment) => {
    media.set(attachment.id, attachment)
    return attachment.id
  }
  const parts: Record<string, unknown> = { ...foreign }
  for (const part of sessionParts()) {
    const saved = part.save(keep)
    if (saved !== undefined) parts[part.name] = saved
  }
  return { parts, media: [...media.values()] }
}

function restore({ parts, media }: SessionContent): void {
  for (const { url } of opened) URL.revokeObjectURL(url)
  opened = media.map((saved) => {
    nameMedia(saved.blob, saved.name, saved.path)
    return { ...saved, url: URL.createObjectURL(saved.blob) }
  })
  const byId = new Map(opened.map((one) => [one.id, one]))
  const find = (id: string) => byId.get(id) ?? null
  const unread: string[] = []
  for (const part of sessionParts()) {
    try {
      part.restore(parts[part.name], find)
    } catch {
      part.restore(undefined, find)
      unread.push(part.name)
    }
  }
  const own = new Set(sessionParts().map(({ name }) => name))
  foreign = Object.fromEntries(Object.entries(parts).filter(([name]) => !own.has(name)))
  sessionNote.value =
    unread.length === 0 ? null : `A part of this session is damaged and was left out: ${unread.join(', ')}.`
}

function titleOf(): string {
  if (isNamed) return title
  for (const part of sessionParts().toSorted((a, b) => Number(!!a.titlesLast) - Number(!!b.titlesLast))) {
    const own = part.title?.()?.trim().replaceAll(/\s+/g, ' ')
    if (own) return own.length > 80 ? `${own.slice(0, 79)}…` : own
  }
  return 'Untitled'
}

function fileNameOf(text: string): string {
  return (
    text
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .trim()
      .slice(0, 60) || 'session'
  )
}

let timer: ReturnType<typeof setTimeout> | undefined

/** Takes a snapshot, which subscribes to all that it reads, and at the first change waits before it takes the next. */
function watchChanges(): void {
  let isFirst = true
  const stop = effect(() => {
    if (isFirst) {
      isFirst = false
      snapshot()
      titleOf()
      return
    }
    queueMicrotask(stop)
    clearTimeout(timer)
    timer = setTimeout(() => {
      void saveNow()
      watchChanges()
    }, SAVE_AFTER_MS)
  })
}

async function attempt(change: () => Promise<void>): Promise<void> {
  try {
    await change()
    entries.value = await listSessions()
  } catch (error) {
    problemWith(error)
  }
}

function problemWith(error: unknown): void {
  const isFull = error instanceof DOMException && error.name === 'QuotaExceededError'
  sessionProblem.value = isFull
    ? "The browser's storage is full, so this session is not saved. Save it to a file, or delete sessions that you do not need."
    : `The browser cannot save this session: ${error instanceof Error ? error.message : String(error)}`
}
