import { useComputed } from '@preact/signals'
import { colourOf } from './colours.ts'
import { type Clip, chosenMark, lighting, litMark, type Mark } from './mark.ts'
import type { ReplyPiece } from './reply-text.ts'

/** A reply's text. Each annotation is a chip in its label's colour; it and its marks on the picture light up together. */
export function AnnotatedText({ pieces }: { readonly pieces: readonly ReplyPiece[] }) {
  return (
    <>
      {pieces.map((piece, index) =>
        piece.kind === 'prose' ? (
          <span key={index}>{piece.text}</span>
        ) : (
          <MarkChip key={index} label={piece.label} marks={piece.marks} clips={piece.clips} />
        ),
      )}
    </>
  )
}

interface MarkChipProps {
  readonly label: string
  readonly marks: readonly Mark[]
  readonly clips?: readonly Clip[]
}

/** The name of marks or clips, to point at and to click. */
export function MarkChip({ label, marks, clips = [] }: MarkChipProps) {
  const ids = [...marks, ...clips].map(({ id }) => id)
  const isLit = useComputed(() => litMark.value !== null && ids.includes(litMark.value)).value
  return (
    <button
      type="button"
      class={`chip ${isLit ? 'lit' : ''}`}
      style={{ '--mark': colourOf(label).fill }}
      data-chip={ids[0]}
      {...lighting(ids[0] ?? null)}
      onClick={() => {
        chosenMark.value = ids[0] ?? null
      }}
    >
      <span class="chip-dot" />
      {label || 'here'}
      {clips.length > 0 && <span class="chip-time">{clips.map(span).join(', ')}</span>}
    </button>
  )
}

function span({ start, end }: Clip): string {
  return end === undefined ? `${start.toFixed(1)} s` : `${start.toFixed(1)}–${end.toFixed(1)} s`
}
