import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { key } from '../server/connection.ts'
import { may } from '../server-status/status.ts'
import { Button } from '../widgets/button.tsx'
import { ConfirmDialog } from '../widgets/dialogs/confirm-dialog.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { ScopeNotice } from '../widgets/notices/scope-notice.tsx'
import type { StoredFile } from './file-body.ts'
import { FileRow } from './file-row.tsx'
import {
  deleteFile,
  files,
  filesFailure,
  filesNote,
  hasMore,
  isListing,
  listFiles,
  listMore,
  uploadFiles,
  uploads,
} from './files.ts'

/** The file that the user is about to delete. */
const doomed = signal<StoredFile | null>(null)

/** The files that the organisation keeps on the server: requests can name them by their ids. */
export function FilesSection() {
  const mayFiles = may('files')
  const given = key.value
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (given !== null && mayFiles !== false) void listFiles()
  }, [given, mayFiles === false])
  if (mayFiles === false) {
    return (
      <div class="server-section">
        <ScopeNotice scopes="inference,files" title="This key may not see the files of its organisation.">
          To create a key that may, run
        </ScopeNotice>
      </div>
    )
  }
  const known = files.value
  const failed = filesFailure.value
  return (
    <div class="server-section">
      <div class="files-head">
        <h2 ref={heading} tabIndex={-1}>
          Files of your organisation
        </h2>
        <UploadButton />
      </div>
      {failed && <FailureNotice failure={failed.failure} onRetry={failed.retry} />}
      <p class="small-fact" role="status">
        {uploads.value[0] ?? filesNote.value}
      </p>
      {known?.length === 0 && (
        <p class="empty">
          No files yet. Requests can name files that you upload here by their ids. Files stay until you delete them.
        </p>
      )}
      <ul class="file-list" aria-label="Files">
        {known?.map((file) => (
          <FileRow
            key={file.id}
            file={file}
            onDelete={() => {
              doomed.value = file
            }}
          />
        ))}
      </ul>
      {known === null && isListing.value && <p class="empty">Loading the list…</p>}
      {hasMore.value && (
        <Button kind="quiet" disabled={isListing.value} onClick={() => void listMore()}>
          Show more
        </Button>
      )}
      {doomed.value !== null && (
        <ConfirmDialog
          title="Delete this file?"
          action="Delete it"
          onConfirm={() => void deleteFile(doomed.value!).then(() => heading.current?.focus())}
          onClose={() => {
            doomed.value = null
          }}
        >
          <p>
            <code>{doomed.value.filename}</code> leaves the server for all of your organisation. Requests that name{' '}
            <code>{doomed.value.id}</code> no longer work.
          </p>
        </ConfirmDialog>
      )}
    </div>
  )
}

function UploadButton() {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={input}
        type="file"
        class="hidden"
        multiple
        accept="image/*,video/*,audio/*"
        aria-label="Files to upload"
        tabIndex={-1}
        onChange={(event) => {
          void uploadFiles([...(event.currentTarget.files ?? [])])
          event.currentTarget.value = ''
        }}
      />
      <Button icon="upload" onClick={() => input.current?.click()}>
        Upload
      </Button>
    </>
  )
}
