import { colourOf } from '../marks/colours.ts'
import { chanceText, shareText } from '../widgets/quantities.ts'
import type { Result } from './results.ts'
import { leastConfidence, sureSpots } from './sureness.ts'

/** From which confidence on objects are shown, and whether any are missing. */
export function SurenessSection({ result }: { readonly result: Result }) {
  if (result.rating === null) return null
  const { isCalibrated, whole } = result.rating
  const hidden = result.spots.length - sureSpots(result).length
  return (
    <section class="sureness" aria-label="Confidence">
      <label class="slider">
        Least confidence
        <input
          type="range"
          min={0}
          max={0.99}
          step={0.01}
          value={leastConfidence.value}
          onInput={({ currentTarget }) => {
            leastConfidence.value = currentTarget.valueAsNumber
          }}
        />
        <output>{shareText(leastConfidence.value)}</output>
        <span class="hidden-count">{hidden} hidden</span>
      </label>
      <dl class="whole">
        <dt>None missing</dt>
        {whole.map(({ label, chance }) => (
          <dd key={label} style={{ '--mark': colourOf(label ?? '').fill }}>
            {label !== null && <span class="chip-dot" />}
            {label ?? 'all objects'} <b>{chance === null ? 'not known' : chanceText(chance)}</b>
          </dd>
        ))}
      </dl>
      {!isCalibrated && (
        <p class="empty">Not calibrated for this model: the numbers give an order, not how often a box is right.</p>
      )}
    </section>
  )
}
