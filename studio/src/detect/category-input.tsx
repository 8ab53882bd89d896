import { useRef } from 'preact/hooks'
import { colourOf } from '../marks/colours.ts'
import { addCategories, categories, categoryDraft, removeCategory } from './targets.ts'

/** The names of what to find, each of which can be taken away. Enter and comma end a name; several can be pasted. */
export function CategoryInput() {
  const input = useRef<HTMLInputElement>(null)
  const take = (text: string) => {
    addCategories(text)
    categoryDraft.value = ''
  }
  return (
    <div class="field">
      <label for="categories">What to find</label>
      <div class="tokens" onPointerDown={(event) => focusFromGround(event, input.current)}>
        {categories.value.length > 0 && (
          <ul aria-label="Categories">
            {categories.value.map((name) => (
              <li key={name} class="token" style={{ '--mark': colourOf(name).fill }}>
                <span class="chip-dot" />
                {name}
                <button
                  type="button"
                  aria-label={`Remove ${name}`}
                  onClick={() => {
                    removeCategory(name)
                    input.current?.focus()
                  }}
                >
                  ×
                </button>
              </li>
            ))}
          </ul>
        )}
        <input
          ref={input}
          id="categories"
          autocomplete="off"
          placeholder={categories.value.length === 0 ? 'cat, dog (empty finds everything)' : 'and…'}
          value={categoryDraft.value}
          onInput={({ currentTarget: { value } }) => {
            if (/[,;\n\t]/.test(value)) take(value)
            else categoryDraft.value = value
          }}
          onKeyDown={(event) => {
            const draft = categoryDraft.value
            const last = categories.value.at(-1)
            if (event.key === 'Enter' && draft.trim() !== '' && !event.isComposing) {
              event.preventDefault()
              take(draft)
            } else if (event.key === 'Backspace' && draft === '' && last !== undefined) removeCategory(last)
          }}
        />
      </div>
    </div>
  )
}

/** A press beside the names is meant for the field. */
function focusFromGround(event: PointerEvent, input: HTMLInputElement | null): void {
  if (event.target !== event.currentTarget) return
  event.preventDefault()
  input?.focus()
}
