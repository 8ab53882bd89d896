import { type Option, type ReadAnswer, topOf } from './answer.ts'
import { percentText } from './percent-text.ts'

/** More options are shown by the likeliest of them. */
const MOST_SHOWN = 8
const LIKELIEST = 5
const LEAST_SHARE = 0.001

/** How likely each option is. */
export function ProbabilityBars({ answer }: { readonly answer: ReadAnswer }) {
  const { options } = answer
  const top = topOf(answer)
  const shown = options.length <= MOST_SHOWN ? options : likeliest(options)
  const others = options.length - shown.length
  const left = 1 - shown.reduce((sum, { share }) => sum + share, 0)
  return (
    <ul class="bars" aria-label="Probabilities">
      {shown.map((option, index) => (
        <li key={index} class={option === top ? 'top' : ''}>
          <span class="bar-name">{option.name}</span>
          <Meter name={option.name} share={option.share} />
        </li>
      ))}
      {others > 0 && (
        <li class="bar-others">
          <span>
            {others} others: {percentText(Math.max(0, left))}
          </span>
        </li>
      )}
    </ul>
  )
}

function Meter({ name, share }: { readonly name: string; readonly share: number }) {
  const text = percentText(share)
  return (
    <>
      <span
        class="bar"
        role="meter"
        aria-label={name}
        aria-valuemin={0}
        aria-valuemax={1}
        aria-valuenow={share}
        aria-valuetext={text}
      >
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span class="bar-share" aria-hidden="true">
        {text}
      </span>
    </>
  )
}

/** In the order of the question. */
function likeliest(options: readonly Option[]): readonly Option[] {
  const least = options.map(({ share }) => share).sort((a, b) => b - a)[LIKELIEST - 1]!
  return options.filter(({ share }) => share >= least && share >= LEAST_SHARE).slice(0, MOST_SHOWN)
}
