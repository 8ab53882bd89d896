import { model } from '../../server/connection.ts'
import { NumberField } from './field.tsx'

interface Sampling {
  /** Null for the server's default. */
  readonly temperature: number | null
  readonly maxTokens: number | null
}

interface SamplingFieldsProps extends Sampling {
  readonly temperatureLabel?: string
  readonly maxTokensLabel?: string
  onChange(change: Partial<Sampling>): void
}

/** How an answer is sampled, and how long it may be. */
export function SamplingFields({ temperature, maxTokens, onChange, ...labels }: SamplingFieldsProps) {
  return (
    <div class="field-row">
      <NumberField
        label={labels.temperatureLabel ?? 'Temperature'}
        value={temperature}
        min={0}
        max={2}
        step={0.1}
        placeholder="0"
        onInput={(value) => onChange({ temperature: value })}
      />
      <NumberField
        label={labels.maxTokensLabel ?? 'Max tokens'}
        value={maxTokens}
        min={0}
        max={model.value?.max_output_tokens ?? 8192}
        step={1}
        placeholder="as many as needed"
        onInput={(value) => onChange({ maxTokens: value })}
      />
    </div>
  )
}
