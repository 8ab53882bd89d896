import { computed, signal } from '@preact/signals'
import { type Attachment, openAttachment, release } from './attachment.ts'
import { isDocument, pagesOf } from './document.ts'
import { MOST_MEDIA } from './limits.ts'

/** The media on the stage: what the next request is about, whichever the mode. */
export const attachments = signal<readonly Attachment[]>([])
const selectedId = signal<string | null>(null)

/** The one that the stage shows. */
export const selected = computed<Attachment | null>(
  () => attachments.value.find(({ id }) => id === selectedId.value) ?? attachments.value.at(-1) ?? null,
)

/** What went wrong with media that the user brought, or is left out of them; null when nothing is. */
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
  const problems: string[] = []
  for (const { blob, name, path } of await withPages(brought, problems)) {
    if (attachments.peek().length + opened.length >= MOST_MEDIA) {
      problems.push(`A request may have at most ${MOST_MEDIA} images, videos and sounds.`)
      break
    }
    try {
      const attachment = await openAttachment(blob, name, path ?? null)
      opened.push(attachment)
      if (attachment.note !== undefined) problems.push(attachment.note)
    } catch (error) {
      problems.push((error as Error).message)
    }
  }
  if (problems.length > 0) intakeError.value = problems.join(' ')
  if (opened.length > 0) {
    attachments.value = [...attachments.value, ...opened]
    selectedId.value = opened[0]!.id
  }
  return opened
}

/** Each PDF becomes its pages. @param problems gets what is wrong with those that cannot be read. */
async function withPages(brought: readonly Brought[], problems: string[]): Promise<Brought[]> {
  const all: Brought[] = []
  for (const one of brought) {
    if (!isDocument(one)) {
      all.push(one)
      continue
    }
    try {
      const { pages, problem } = await pagesOf(one)
      all.push(...pages)
      if (problem !== null) problems.push(problem)
    } catch (error) {
      problems.push((error as Error).message)
    }
  }
  return all
}

export function remove(id: string): void {
  const index = attachments.value.findIndex((one) => one.id === id)
  const gone = attachments.value[index]
  if (gone === undefined) return
  // The stage goes on to the next one, or back to the one before.
  if (selected.value === gone)
    selectedId.value = (attachments.value[index + 1] ?? attachments.value[index - 1])?.id ?? null
  attachments.value = attachments.value.filter((one) => one !== gone)
  release(gone)
}

/** Takes everything off the stage. */
function clearAttachments(): void {
  for (const one of attachments.value) release(one)
  attachments.value = []
}

/** Puts exactly these on the stage, as a saved session had them. */
export function restoreAttachments(saved: readonly Attachment[]): void {
  clearAttachments()
  attachments.value = saved
}
