import { signal } from '@preact/signals'
import type { Attachment } from '../media/attachment.ts'

/** A part of what is on the page, and how a session keeps it. */
export interface SessionPart {
  /** Its name in sessions and in files. */
  readonly name: string
  /** Whether there is nothing to keep when only this part has something. */
  readonly isAside?: boolean
  /**
   * What is there now, as plain JSON; undefined for nothing that is worth keeping. The signals that it reads say when the
   * session is saved again.
   * @param keep keeps the bytes of an attachment with the session. @returns its id
   */
  save(keep: (attachment: Attachment) => string): unknown
  /**
   * Shows what `save` gave, or a file that says so: its shape is not known. Undefined empties the part.
   * @param find an attachment of the session by its id; null when there is none.
   * @throws Error when it makes no sense; the part is then emptied.
   */
  restore(saved: unknown, find: (id: string) => Attachment | null): void
  /** Whether other parts have better titles. */
  readonly titlesLast?: boolean
  /** What a session is called that has no name yet; null when the part does not know. */
  title?(): string | null
}

const parts = signal<readonly SessionPart[]>([])
const loaders = new Map<string, () => Promise<void>>()

/** A mode calls this once, when its module loads. */
export function keepInSessions(part: SessionPart): void {
  parts.value = [...parts.value, part]
}

/** Has the module of a part loaded before a session is shown that has the part. @param load never rejects */
export function loadForSessions(name: string, load: () => Promise<void>): void {
  loaders.set(name, load)
}

export async function loadParts(names: readonly string[]): Promise<void> {
  await Promise.all(names.map((name) => loaders.get(name)?.()))
}

export function sessionParts(): readonly SessionPart[] {
  return parts.value
}
