import { computed, signal } from '@preact/signals'
import { whyUnread } from '../media/attachment.ts'
import { bring, intakeError } from '../media/attachments.ts'
import { callBlob, callJson } from '../server/call.ts'
import { type Failure, toFailure } from '../server/failure.ts'
import { download } from '../widgets/download.ts'
import type { FilePage, StoredFile } from './file-body.ts'
import { thumbnails } from './thumbnails.ts'

const PAGE = 20

/** Newest first, as far as they were asked for; null before that. */
export const files = signal<readonly StoredFile[] | null>(null)
export const hasMore = signal(false)
/** What is being done, for each file by its id, and for uploads by their names. */
const working = signal<ReadonlyMap<string, string>>(new Map())
export const isListing = computed(() => working.value.has('list'))
/** What did not work, and how to try it again. */
export const filesFailure = signal<{ readonly failure: Failure; readonly retry: () => void } | null>(null)
/** What was done last, for a moment that nothing else tells. */
export const filesNote = signal('')

export const uploads = computed(() =>
  [...working.value].flatMap(([id, what]) => (id.startsWith('upload ') ? [what] : [])),
)

/** What is being done with a file; null for nothing. */
export function workOf(id: string): string | null {
  return working.value.get(id) ?? null
}

/** Lists the files from the start. */
export function listFiles(): Promise<void> {
  return work('list', 'Loading the list…', listFiles, async () => {
    const page = await pageAfter(null)
    files.value = page.data
    hasMore.value = page.has_more
  })
}

export function listMore(): Promise<void> {
  return work('list', 'Loading more…', listMore, async () => {
    const known = files.value ?? []
    const page = await pageAfter(known.at(-1)?.id ?? null)
    const ids = new Set(known.map(({ id }) => id))
    files.value = [...known, ...page.data.filter(({ id }) => !ids.has(id))]
    hasMore.value = page.has_more
  })
}

let uploadCount = 0

export async function uploadFiles(given: Iterable<File>): Promise<void> {
  // One after the other: the line is the same, and each has its own limits.
  for (const file of [...given]) await uploadFile(file)
}

function uploadFile(file: File): Promise<void> {
  return work(
    `upload ${++uploadCount}`,
    `Uploading ${file.name}…`,
    () => uploadFile(file),
    async () => {
      const form = new FormData()
      form.set('purpose', 'vision')
      form.set('file', file, file.name)
      const sending = callJson<StoredFile>('/v1/files', { method: 'POST', body: form })
      const stored = await sending.catch(async (error: unknown) => {
        throw await whyUnread(error, { name: file.name, blob: file })
      })
      await thumbnails.make(stored.id, file)
      files.value = [stored, ...(files.value ?? []).filter(({ id }) => id !== stored.id)]
      filesNote.value = `${file.name} is uploaded.`
    },
  )
}

export function saveFile(file: StoredFile): Promise<void> {
  return work(
    file.id,
    'Downloading…',
    () => saveFile(file),
    async () => download(await contentOf(file), file.filename),
  )
}

export function putOnStage(file: StoredFile): Promise<void> {
  return work(
    file.id,
    'Fetching…',
    () => putOnStage(file),
    async () => {
      const opened = await bring([{ blob: await contentOf(file), name: file.filename }])
      filesNote.value = opened.length > 0 ? `${file.filename} is on the stage.` : (intakeError.value ?? '')
    },
  )
}

export function deleteFile(file: StoredFile): Promise<void> {
  return work(
    file.id,
    'Deleting…',
    () => deleteFile(file),
    async () => {
      await callJson(pathOf(file), { method: 'DELETE' })
      files.value = files.value?.filter(({ id }) => id !== file.id) ?? null
      filesNote.value = `${file.filename} is deleted.`
    },
  )
}

function contentOf(file: StoredFile): Promise<Blob> {
  return callBlob(`${pathOf(file)}/content`)
}

function pathOf({ id }: StoredFile): string {
  return `/v1/files/${encodeURIComponent(id)}`
}

function pageAfter(id: string | null): Promise<FilePage> {
  return callJson(`/v1/files?limit=${PAGE}${id === null ? '' : `&after=${encodeURIComponent(id)}`}`)
}

/** Notes that something is being done, and what went wrong. */
async function work(id: string, what: string, retry: () => Promise<void>, action: () => Promise<void>): Promise<void> {
  if (working.value.has(id)) return
  working.value = new Map(working.value).set(id, what)
  filesFailure.value = null
  filesNote.value = ''
  try {
    await action()
  } catch (error) {
    filesFailure.value = { failure: toFailure(error), retry: () => void retry() }
  } finally {
    const left = new Map(working.value)
    left.delete(id)
    working.value = left
  }
}
