import { computed, signal } from '@preact/signals'
import { type Attachment, openAttachment, release } from './attachment.ts'

/** The media on the stage: what the next request is about, whichever the mode. */
export const attachments = signal<readonly Attachment[]>([])
const selectedId = signal<string | null>(null)

/** The one that the stage shows. */
export const selected = computed<Attachment | null>(
  () => attachments.value.find(({ id }) => id === selectedId.value) ?? attachments.value.at(-1) ?? null,
)

/** What went wrong with media that the user brought; null when nothing did. */
export const intakeError = signal<string | null>(null)

export function select(id: string): void {
  selectedId.value = id
}

export interface Brought {
  readonly blob: Blob
  readonly name: string
  readonly path?: string
}

/** Puts media on the stage. What cannot be read is left out, and `intakeError` says so. */
export async function bring(brought: readonly Brought[]): Promise<readonly Attachment[]> {
  intakeError.value = null
  const opened: Attachment[] = []
  for (const { blob, name, path } of brought) {
    try {
      opened.push(await openAttachment(blob, name, path ?? null))
    } catch (error) {
      intakeError.value = (error as Error).message
    }
  }
  if (opened.length > 0) {
    attachments.value = [...attachments.value, ...opened]
    selectedId.value = opened[0]!.id
  }
  return opened
}

export function remove(id: string): void {
  const gone = attachments.value.find((one) => one.id === id)
  attachments.value = attachments.value.filter((one) => one.id !== id)
  if (gone) release(gone)
}

/** Takes everything off the stage. */
export function clearAttachments(): void {
  for (const one of attachments.value) release(one)
  attachments.value = []
}

/** Puts exactly these on the stage, as a saved session had them. */
export function restoreAttachments(saved: readonly Attachment[]): void {
  clearAttachments()
  attachments.value = saved
}
