import { model } from '../server/connection.ts'
import { NumberField, TextAreaField } from '../widgets/field.tsx'
import { type LookOptions, lookOptions } from './look-options.ts'

/** What goes with all questions. */
export function LookSettings() {
  const { n, temperature, maxTokens, context } = lookOptions.value
  const set = (change: Partial<LookOptions>) => {
    lookOptions.value = { ...lookOptions.value, ...change }
  }
  return (
    <div class="settings">
      <TextAreaField
        label="Text that all questions share"
        value={context}
        placeholder="A document, or what to keep in mind"
        onInput={(value) => set({ context: value })}
      />
      <div class="field-row">
        <NumberField
          label={n > 1 ? 'Temperature (above 0 for several answers)' : 'Temperature'}
          value={temperature}
          min={0}
          max={2}
          step={0.1}
          placeholder="0"
          onInput={(value) => set({ temperature: value })}
        />
        <NumberField
          label="Most tokens of an answer"
          value={maxTokens}
          min={0}
          max={model.value?.max_output_tokens ?? 8192}
          step={1}
          placeholder="as many as needed"
          onInput={(value) => set({ maxTokens: value })}
        />
      </div>
    </div>
  )
}
