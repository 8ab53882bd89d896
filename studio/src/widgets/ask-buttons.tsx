import type { Signal } from '@preact/signals'
import { model } from '../server/connection.ts'
import { Button, IconButton } from './button.tsx'
import { Icon } from './icon.tsx'

/** Sends what is written beside it, or stops the answer that is arriving. */
export function AskButton({ isBusy, disabled, onStop }: { isBusy: boolean; disabled: boolean; onStop: () => void }) {
  if (isBusy) return <IconButton icon="stop" label="Stop" onClick={onStop} />
  return (
    <button type="submit" class="icon-button primary" aria-label="Ask" title="Ask (Enter)" disabled={disabled}>
      <Icon name="send" />
    </button>
  )
}

/** Whether the model thinks first; nothing for a model that cannot. */
export function ThinkButton({ thinks, onChange }: { thinks: boolean; onChange: (thinks: boolean) => void }) {
  if (!model.value?.reasoning.supported) return null
  return (
    <Button kind="quiet" pressed={thinks} onClick={() => onChange(!thinks)}>
      Think first
    </Button>
  )
}

export function SettingsButton({ shows }: { shows: Signal<boolean> }) {
  return (
    <Button
      kind="quiet"
      pressed={shows.value}
      onClick={() => {
        shows.value = !shows.value
      }}
    >
      Settings
    </Button>
  )
}
