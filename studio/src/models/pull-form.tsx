import { useEffect, useId, useRef } from 'preact/hooks'
import { chooseModel } from '../server/connection.ts'
import { Button } from '../widgets/button.tsx'
import { FailureNotice } from '../widgets/failure-notice.tsx'
import { CheckField } from '../widgets/field.tsx'
import { Notice } from '../widgets/notice.tsx'
import { bytesText } from '../widgets/quantities.ts'
import {
  address,
  cancelPull,
  chosenOption,
  closePull,
  look,
  pullChosen,
  pullFailure,
  pullNote,
  pullState,
  quant,
  textOnly,
} from './pull.ts'
import type { PullChoice, PullOption } from './pull-event.ts'
import { PullProgress } from './pull-progress.tsx'

/** Fetches a model from the hub: what to fetch, what there is to choose from, and how far it is. */
export function PullForm() {
  const state = pullState.value
  const failure = pullFailure.value
  const section = useRef<HTMLElement>(null)
  const isOpened = useRef(false)
  useEffect(() => {
    // What had the focus may have made room for the next step.
    if (isOpened.current && document.activeElement === document.body) {
      section.current?.querySelector<HTMLElement>('input:checked, input[id], button')?.focus({ preventScroll: true })
    }
    isOpened.current = true
  }, [state.step])
  return (
    <section ref={section} class="pull" aria-labelledby="pull-title">
      <h2 id="pull-title">Get a model</h2>
      {(state.step === 'idle' || state.step === 'looking') && <AddressForm isLooking={state.step === 'looking'} />}
      {state.step === 'choosing' && <ChoiceForm choice={state.choice} />}
      {state.step === 'pulling' && <PullProgress model={state.model} files={state.files} />}
      {state.step === 'done' && <Done id={state.id} reason={state.reason} />}
      {pullNote.value && <p class="small-fact">{pullNote.value}</p>}
      {failure && (
        <FailureNotice failure={failure} onRetry={() => void (state.step === 'choosing' ? pullChosen() : look())} />
      )}
    </section>
  )
}

function AddressForm({ isLooking }: { readonly isLooking: boolean }) {
  const id = useId()
  return (
    <form
      class="pull-address"
      onSubmit={(event) => {
        event.preventDefault()
        if (!isLooking) void look()
      }}
    >
      <div class="field">
        <label for={id}>A repository on Hugging Face with GGUF files</label>
        <div class="pull-row">
          <input
            id={id}
            class="code"
            value={address.value}
            placeholder="user/repository"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            readOnly={isLooking}
            onInput={(event) => {
              address.value = event.currentTarget.value
            }}
          />
          {isLooking ? (
            <Button onClick={cancelPull}>Cancel</Button>
          ) : (
            <Button type="submit" disabled={address.value.trim() === ''}>
              Look it up
            </Button>
          )}
        </div>
      </div>
      <p class="small-fact" role="status">
        {isLooking && 'Asking the hub what there is…'}
      </p>
    </form>
  )
}

const FITS: Readonly<Record<PullOption['fits'], string>> = {
  yes: 'fits',
  tight: 'fits tightly',
  no: 'does not fit',
}

function ChoiceForm({ choice }: { readonly choice: PullChoice }) {
  const option = chosenOption.value
  return (
    <form
      class="pull-choice"
      onSubmit={(event) => {
        event.preventDefault()
        void pullChosen()
      }}
    >
      <fieldset>
        <legend>
          Which quantisation of <code>{choice.model}</code>?
        </legend>
        {choice.options.map((one) => (
          <label key={one.quant} class="quant">
            <input
              type="radio"
              name="quant"
              checked={one.quant === quant.value}
              onChange={() => {
                quant.value = one.quant
              }}
            />
            <span class="quant-name">{one.quant}</span>
            <span class="quant-size">{one.cached ? 'on the disk' : bytesText(one.bytes)}</span>
            <span class={`fit ${one.fits}`}>
              {FITS[one.fits]}, takes {bytesText(one.memory_bytes)}
            </span>
          </label>
        ))}
      </fieldset>
      <p class="small-fact">
        {bytesText(choice.available_bytes)} of memory is available.{' '}
        {choice.projector === null ? 'It has no image encoder: it reads text only.' : null}
      </p>
      {choice.projector !== null && (
        <CheckField
          label="Leave the image encoder out: text only"
          checked={textOnly.value}
          onChange={(value) => {
            textOnly.value = value
          }}
        />
      )}
      {option?.fits === 'no' && (
        <Notice tone="wait">It needs more memory than there is: it will be slow, or not load.</Notice>
      )}
      <div class="pull-actions">
        <Button type="submit" kind="primary" icon="download" disabled={option === null}>
          {option === null || option.cached ? 'Add it' : `Fetch ${bytesText(option.bytes)}`}
        </Button>
        <Button kind="quiet" onClick={closePull}>
          Another one
        </Button>
      </div>
    </form>
  )
}

function Done({ id, reason }: { readonly id: string; readonly reason: string | null }) {
  const done = () => {
    address.value = ''
    closePull()
  }
  return (
    <>
      {reason === null ? (
        <Notice
          actions={
            <>
              <Button
                kind="primary"
                onClick={() => {
                  chooseModel(id)
                  done()
                }}
              >
                Use it
              </Button>
              <Button kind="quiet" onClick={done}>
                Close
              </Button>
            </>
          }
        >
          <code>{id}</code> is here. It is loaded at its first use.
        </Notice>
      ) : (
        <Notice tone="wait" actions={<Button onClick={done}>Close</Button>}>
          <code>{id}</code> was fetched and cannot be used. {reason}
        </Notice>
      )}
    </>
  )
}
