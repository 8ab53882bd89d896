import { useSignal } from '@preact/signals'
import { Button } from '../widgets/button.tsx'
import { useModal } from '../widgets/dialogs/modal.ts'
import { CheckField } from '../widgets/fields/field.tsx'
import { Notice } from '../widgets/notices/notice.tsx'
import { keyProblem, useKey } from './connection.ts'

/** Asks for the key. Nothing on the page is lost meanwhile. */
export function KeyDialog() {
  const dialog = useModal()
  const given = useSignal('')
  const keeps = useSignal(false)
  return (
    <dialog
      ref={dialog}
      class="key-dialog"
      aria-labelledby="key-title"
      onCancel={(event) => event.preventDefault()}
      // A browser lets nothing prevent the second Escape.
      onClose={() => dialog.current?.showModal()}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (given.value.trim() !== '') useKey(given.value, keeps.value)
        }}
      >
        <h2 id="key-title">Which key should this page use?</h2>
        <p>
          <code>npm start</code> prints a key when it first starts. <code>npx lookout keys create</code> makes another.
        </p>
        <input
          type="password"
          aria-label="API key"
          placeholder="lk-…"
          autocomplete="off"
          value={given.value}
          onInput={(event) => {
            given.value = event.currentTarget.value
          }}
        />
        {keyProblem.value !== null && <Notice tone="error">{keyProblem.value}</Notice>}
        <CheckField
          label="Remember it in this browser"
          checked={keeps.value}
          onChange={(value) => {
            keeps.value = value
          }}
        />
        <Button kind="primary" type="submit" disabled={given.value.trim() === ''}>
          Use this key
        </Button>
      </form>
    </dialog>
  )
}
