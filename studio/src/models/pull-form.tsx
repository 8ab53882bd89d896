import { useId } from 'preact/hooks'
import { Button } from '../widgets/button.tsx'
import { CheckField } from '../widgets/fields/field.tsx'
import { Notice } from '../widgets/notices/notice.tsx'
import { bytesText } from '../widgets/quantities.ts'
import { FITS } from './catalogue.ts'
import { address, cancelPull, chosenOption, closePull, look, pullChosen, quant, textOnly } from './pull.ts'
import type { PullChoice } from './pull-event.ts'

/** Any repository of the hub, by its name. */
export function AddressForm({ isLooking }: { readonly isLooking: boolean }) {
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
        {isLooking && 'Looking it up on the hub…'}
      </p>
    </form>
  )
}

/** Which quantisation to fetch. */
export function ChoiceForm({ choice }: { readonly choice: PullChoice }) {
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
          label="Without the image encoder: text only"
          checked={textOnly.value}
          onChange={(value) => {
            textOnly.value = value
          }}
        />
      )}
      {option?.fits === 'no' && (
        <Notice tone="wait">It needs more memory than this server has: it will be slow, or will not load.</Notice>
      )}
      <div class="pull-actions">
        <Button type="submit" kind="primary" icon="download" disabled={option === null}>
          {option === null || option.cached ? 'Add it' : `Fetch ${bytesText(option.bytes)}`}
        </Button>
        <Button kind="quiet" onClick={closePull}>
          Back
        </Button>
      </div>
    </form>
  )
}
