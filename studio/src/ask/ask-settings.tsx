import { model } from '../server/connection.ts'
import { CheckField, NumberField, TextAreaField } from '../widgets/field.tsx'
import { type AskOptions, options } from './conversation.ts'

/** Settings of the following questions. */
export function AskSettings() {
  const { system, temperature, maxTokens, focus, tools, remembers } = options.value
  const set = (change: Partial<AskOptions>) => {
    options.value = { ...options.value, ...change }
  }
  const can = new Set(model.value?.capabilities ?? [])
  return (
    <div class="settings">
      <TextAreaField label="System prompt" value={system} onInput={(value) => set({ system: value })} />
      <div class="field-row">
        <NumberField
          label="Temperature"
          value={temperature}
          min={0}
          max={2}
          step={0.1}
          placeholder="0"
          onInput={(value) => set({ temperature: value })}
        />
        <NumberField
          label="Most tokens"
          value={maxTokens}
          min={0}
          max={model.value?.max_output_tokens ?? 8192}
          step={1}
          placeholder="as many as needed"
          onInput={(value) => set({ maxTokens: value })}
        />
      </div>
      <CheckField
        label="Send the earlier turns with each question"
        checked={remembers}
        onChange={(value) => set({ remembers: value })}
      />
      <CheckField
        label="Let the model look closer (focus)"
        checked={focus}
        onChange={(value) => set({ focus: value })}
      />
      {can.has('tool_calling') && (
        <TextAreaField
          label="Tools, as a JSON array"
          isCode
          value={tools}
          placeholder='[{"type": "function", "function": {"name": "...", "parameters": {...}}}]'
          onInput={(value) => set({ tools: value })}
        />
      )}
    </div>
  )
}
