import { TextAreaField } from '../widgets/fields/field.tsx'
import { SamplingFields } from '../widgets/fields/sampling-fields.tsx'
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
        placeholder="A document or instructions"
        onInput={(value) => set({ context: value })}
      />
      <SamplingFields
        temperature={temperature}
        maxTokens={maxTokens}
        temperatureLabel={n > 1 ? 'Temperature (above 0 for several answers)' : 'Temperature'}
        maxTokensLabel="Max tokens per answer"
        onChange={set}
      />
    </div>
  )
}
