import { model } from '../server/connection.ts'
import { CheckField, TextAreaField } from '../widgets/fields/field.tsx'
import { SamplingFields } from '../widgets/fields/sampling-fields.tsx'
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
      <SamplingFields temperature={temperature} maxTokens={maxTokens} onChange={set} />
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
