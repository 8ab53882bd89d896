import { signal, useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Button, IconButton } from '../widgets/button.tsx'
import { Dialog } from '../widgets/dialogs/dialog.tsx'
import { bytesText } from '../widgets/quantities.ts'
import { openFile, saveToFile } from './session-files.ts'
import type { SessionEntry } from './session-store.ts'
import { beginSession, currentId, entries, listAgain, openSession, remove, rename } from './sessions.ts'

export const sessionsAreShown = signal(false)

/** All sessions of this browser, to go on with one. */
export function SessionsDialog() {
  const tools = useRef<HTMLDivElement>(null)
  const isShown = sessionsAreShown.value
  // Other tabs have changed them since.
  useEffect(() => {
    if (isShown) void listAgain()
  }, [isShown])
  if (!isShown) return null
  const close = () => {
    sessionsAreShown.value = false
  }
  const leaveFor = (next: Promise<void>) => void next.then(close)
  return (
    <Dialog title="Sessions" class="sessions" onClose={close}>
      <div ref={tools} class="session-tools">
        <Button kind="primary" icon="plus" onClick={() => leaveFor(beginSession())}>
          New session
        </Button>
        <Button icon="download" onClick={() => void saveToFile()}>
          Save to a file
        </Button>
        <OpenFile onOpened={close} />
      </div>
      {entries.value.length === 0 ? (
        <p class="empty">No sessions yet. This browser saves what you do on this page automatically.</p>
      ) : (
        <ul class="session-list" aria-label="Sessions">
          {entries.value.map((entry) => (
            <SessionRow
              key={entry.id}
              entry={entry}
              onOpen={() => leaveFor(openSession(entry.id))}
              onDeleted={() => tools.current?.querySelector('button')?.focus()}
            />
          ))}
        </ul>
      )}
      <p class="session-note">Sessions stay in this browser. Neither they nor their files contain keys.</p>
    </Dialog>
  )
}

function OpenFile({ onOpened }: { readonly onOpened: () => void }) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={input}
        type="file"
        class="hidden"
        accept=".json,application/json"
        aria-label="Session file"
        tabIndex={-1}
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? []
          if (file) void openFile(file, true).then(onOpened)
          event.currentTarget.value = ''
        }}
      />
      <Button icon="folder" onClick={() => input.current?.click()}>
        Open a file
      </Button>
    </>
  )
}

interface SessionRowProps {
  readonly entry: SessionEntry
  onOpen(): void
  onDeleted(): void
}

function SessionRow({ entry, onOpen, onDeleted }: SessionRowProps) {
  const state = useSignal<'' | 'renaming' | 'deleting'>('')
  const row = useRef<HTMLLIElement>(null)
  const shown = useRef(state.value)
  const { id, title, savedAt, bytes } = entry
  const isCurrent = id === currentId.value
  const set = (value: typeof state.value) => () => {
    state.value = value
  }
  const current = state.value
  // What had the focus is gone: it goes to what keeps the session, and back.
  useLayoutEffect(() => {
    const target = current === 'deleting' ? 'button:last-child' : '.session-open'
    if (shown.current !== current) row.current?.querySelector<HTMLElement>(target)?.focus()
    shown.current = current
  }, [current])
  if (current === 'renaming') return <RenameRow entry={entry} onDone={set('')} />
  if (current === 'deleting') {
    return (
      <li ref={row} class="session-row asking">
        <span>Delete “{title}” for good?</span>
        <Button kind="danger" onClick={() => void remove(id).then(onDeleted)}>
          Delete
        </Button>
        <Button onClick={set('')}>Keep</Button>
      </li>
    )
  }
  return (
    <li ref={row} class={`session-row ${isCurrent ? 'current' : ''}`}>
      <button type="button" class="session-open" aria-current={isCurrent ? 'true' : undefined} onClick={onOpen}>
        <span class="session-title">{title}</span>
        <span class="session-facts">
          {when(savedAt)} · {bytesText(bytes)}
        </span>
      </button>
      <IconButton icon="pencil" label={`Rename ${title}`} onClick={set('renaming')} />
      <IconButton icon="trash" label={`Delete ${title}`} onClick={set('deleting')} />
    </li>
  )
}

function RenameRow({ entry, onDone }: { readonly entry: SessionEntry; readonly onDone: () => void }) {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.select(), [])
  return (
    <li class="session-row">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void rename(entry.id, input.current!.value).then(onDone)
        }}
      >
        <input
          ref={input}
          aria-label="Title"
          defaultValue={entry.title}
          maxLength={200}
          onKeyDown={(event) => {
            if (event.key !== 'Escape') return
            // Not the dialog's: only the row is left.
            event.preventDefault()
            event.stopPropagation()
            onDone()
          }}
        />
        <Button type="submit">Rename</Button>
      </form>
    </li>
  )
}

function when(time: number): string {
  const date = new Date(time)
  const isToday = date.toDateString() === new Date().toDateString()
  return isToday
    ? `today ${date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })}`
    : date.toLocaleDateString([], { day: 'numeric', month: 'short', year: 'numeric' })
}
