import { MarkChip } from '../marks/annotated-text.tsx'
import { type Answer, type Decided, placesOf, topOf } from './answer.ts'
import { placeId } from './decide.ts'
import { percentText } from './percent-text.ts'
import { ProbabilityBars } from './probability-bars.tsx'

/** Below this, the model would rather have said something else. */
const LEAST_MASS = 0.5

/** An answer with how likely it is. */
export function DecisionAnswer({ id, decided }: { readonly id: string; readonly decided: Decided }) {
  const { answer } = decided
  if (answer.kind === 'none') return <p class="empty">No answer: the model cannot give any of these.</p>
  return (
    <>
      <p class="decision-head">
        <Head id={id} decided={decided} />
        {answer.confidence !== null && <span>Confidence {percentText(answer.confidence)}</span>}
      </p>
      {answer.kind === 'read' && <ProbabilityBars answer={answer} />}
      {answer.kind === 'read' && answer.mass < LEAST_MASS && (
        <p class="decision-note">
          The model would rather say something else ({percentText(1 - answer.mass)}): ask in another way.
        </p>
      )}
    </>
  )
}

function Head({ id, decided: { question, answer, media } }: { readonly id: string; readonly decided: Decided }) {
  if (answer.kind === 'none') return null
  if (answer.kind === 'read') {
    const { score, options } = answer
    if (score === null) return <strong>{topOf(answer).name}</strong>
    return (
      <strong>
        {score.toFixed(2)} <span class="decision-scale">of {options.length - 1}</span>
      </strong>
    )
  }
  if (answer.place === null) return <strong>Not found</strong>
  const label = question.text.trim()
  const { marks, clips } = placesOf(answer, placeId(id), label, media)
  return (
    <>
      <MarkChip label={label} marks={marks} clips={clips} />
      {marks.length > 0 && <span class="decision-place">{placeText(answer)}</span>}
    </>
  )
}

/** In percent of the sides. */
function placeText({ kind, place }: Extract<Answer, { place: unknown }>): string {
  const [left, top, right, bottom] = place!.map((number) => `${Math.round(number * 100)}`)
  return kind === 'box' ? `${left}–${right} % across, ${top}–${bottom} % down` : `${left} % across, ${top} % down`
}
