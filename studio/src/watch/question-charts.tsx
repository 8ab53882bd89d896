import { piecesOf, type Sample, spanOf } from '../widgets/history.ts'
import { chanceText, countText } from '../widgets/quantities.ts'
import { Sparkline } from '../widgets/sparkline.tsx'
import { rows } from './event-feed.ts'
import { goingOn } from './event-rows.ts'
import { samples, type Values } from './pushing.ts'
import { timeText } from './time.ts'
import type { Watch } from './wire.ts'

/** How likely each question is, now and in the last minutes. */
export function QuestionCharts({ watch }: { readonly watch: Watch }) {
  const on = goingOn(rows.value)
  return (
    <ul class="watch-questions" aria-label="Questions">
      {watch.questions.map((question) => (
        <QuestionChart
          key={question.name}
          question={question}
          since={on.get(question.name) ?? null}
          samples={samples.value}
        />
      ))}
    </ul>
  )
}

interface QuestionChartProps {
  readonly question: Watch['questions'][number]
  /** When the event started that goes on; null for none. */
  readonly since: Date | null
  readonly samples: readonly Sample<Values>[]
}

function QuestionChart({ question: { name, instructions, event }, since, samples }: QuestionChartProps) {
  const pieces = piecesOf(samples, (state) => state.get(name) ?? null)
  const last = samples.at(-1)?.state.get(name)
  const text = last === undefined ? '–' : last === null ? 'unsure' : chanceText(last)
  const levels = event === null ? [] : [event.above, event.below]
  const values = pieces.flat().map(({ value }) => value)
  const spoken =
    values.length === 0
      ? 'no looks yet'
      : `now ${text}, between ${chanceText(Math.min(...values))} and ${chanceText(Math.max(...values))}`
  return (
    <li class={`watch-question ${since === null ? '' : 'on'}`}>
      <div class="watch-question-head">
        <span>{instructions}</span>
        <strong>{text}</strong>
      </div>
      <div class="watch-chart">
        <Sparkline
          pieces={pieces}
          until={samples.at(-1)?.at ?? 0}
          span={spanOf(samples)}
          ceiling={1}
          levels={levels}
          label={`${instructions} ${countText(samples.length)} looks: ${spoken}`}
        />
        {levels.map((level) => (
          <span key={level} class="level-label" style={{ top: `${(1 - level) * 100}%` }}>
            {Math.round(level * 100)} %
          </span>
        ))}
      </div>
      <span class={`state ${since === null ? '' : 'ready'}`}>
        {since !== null ? `On since ${timeText(since)}` : event === null ? 'No events' : 'Not now'}
      </span>
    </li>
  )
}
