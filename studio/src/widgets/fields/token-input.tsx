import { useRef } from 'preact/hooks'

interface TokenInputProps {
  readonly id: string
  readonly label: string
  /** What the list of tokens is called. */
  readonly listLabel: string
  readonly tokens: readonly string[]
  readonly draft: string
  readonly placeholder: string
  /** Colour of a token, in CSS. */
  readonly colourOf?: (token: string) => string
  /** The place of a token that is wrong; -1: all of them. */
  readonly faultAt?: number | null
  onDraft(text: string): void
  /** Told when Enter or a separator ends what was typed, or when several were pasted. */
  onTake(text: string): void
  onRemove(index: number): void
}

/** Short texts, each of which can be taken away. Enter and comma end one; several can be pasted. */
export function TokenInput({ id, label, listLabel, tokens, draft, placeholder, ...rest }: TokenInputProps) {
  const { colourOf, faultAt = null, onDraft, onTake, onRemove } = rest
  const input = useRef<HTMLInputElement>(null)
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div
        class={`tokens ${faultAt === -1 ? 'at-fault' : ''}`}
        onPointerDown={(event) => focusFromGround(event, input.current)}
      >
        {tokens.length > 0 && (
          <ul aria-label={listLabel}>
            {tokens.map((token, index) => (
              <li
                key={`${index} ${token}`}
                class={`token ${faultAt === index ? 'at-fault' : ''}`}
                {...(colourOf ? { style: { '--mark': colourOf(token) } } : {})}
              >
                {colourOf && <span class="chip-dot" />}
                {token}
                <button
                  type="button"
                  aria-label={`Remove ${token}`}
                  onClick={() => {
                    onRemove(index)
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
          id={id}
          autocomplete="off"
          placeholder={placeholder}
          value={draft}
          aria-invalid={faultAt === null ? undefined : true}
          onInput={({ currentTarget: { value } }) => {
            if (/[,;\n\t]/.test(value)) onTake(value)
            else onDraft(value)
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && draft.trim() !== '' && !event.isComposing) {
              event.preventDefault()
              onTake(draft)
            } else if (event.key === 'Backspace' && draft === '' && tokens.length > 0) onRemove(tokens.length - 1)
          }}
        />
      </div>
    </div>
  )
}

/** The texts between separators. */
export function tokensOf(text: string): string[] {
  return text
    .split(/[,;\n\t]/)
    .map((token) => token.trim())
    .filter((token) => token !== '')
}

/** A press beside the tokens is meant for the field. */
function focusFromGround(event: PointerEvent, input: HTMLInputElement | null): void {
  if (event.target !== event.currentTarget) return
  event.preventDefault()
  input?.focus()
}
