import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Button } from '../widgets/button.tsx'
import { useModal } from '../widgets/dialogs/modal.ts'
import { Notice } from '../widgets/notices/notice.tsx'
import { bringAddress, fetching } from './address.ts'
import { intakeError } from './attachments.ts'

/** Asks for the address of media. The server fetches it. */
export function AddressDialog({ onClose }: { readonly onClose: () => void }) {
  const dialog = useModal()
  const given = useSignal('')
  const problem = useSignal<string | null>(null)
  const isBusy = fetching.value !== null
  const gone = useRef(new AbortController())
  useEffect(() => () => gone.current.abort(), [])
  const submit = async () => {
    problem.value = null
    if (await bringAddress(given.value.trim(), gone.current.signal)) return onClose()
    if (gone.current.signal.aborted) return
    // It is said here, beside the field.
    problem.value = intakeError.value
    intakeError.value = null
  }
  return (
    <dialog ref={dialog} aria-labelledby="address-title" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (given.value.trim() !== '' && !isBusy) void submit()
        }}
      >
        <h2 id="address-title">Fetch from an address</h2>
        <p class="muted">The server fetches it from public addresses and from the hosts that its settings allow.</p>
        <input
          type="url"
          aria-label="Address"
          placeholder="https://…"
          autocomplete="off"
          required
          value={given.value}
          onInput={(event) => {
            given.value = event.currentTarget.value
          }}
        />
        {problem.value && <Notice tone="error">{problem.value}</Notice>}
        <div class="dialog-actions">
          <Button onClick={() => dialog.current?.close()}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={isBusy || given.value.trim() === ''}>
            {isBusy ? 'Fetching…' : 'Fetch'}
          </Button>
        </div>
      </form>
    </dialog>
  )
}
