import { useSignal } from '@preact/signals'
import { piecesOf, type Sample, spanOf } from '../../widgets/history.ts'
import { chanceText, countText } from '../../widgets/quantities.ts'
import { Sparkline } from '../../widgets/sparkline.tsx'
import { samples, type Values } from '../source/pushing.ts'
import { STEP, Threshold } from '../threshold.tsx'
import { timeText } from '../time.ts'
import { changeWatch } from '../watches.ts'
import type { Watch } from '../wire.ts'
import { rows } from './event-feed.ts'
import { goingOn } from './event-rows.ts'

/** How likely each question is, now and in the last minutes. */
export function QuestionCharts({ watch }: { readonly watch: Watch }) {
  const on = goingOn(rows.value)
  return (
    <ul class="watch-questions" aria-label="Questions">
      {watch.questions.map((question) => (
        <QuestionChart
          key={question.name}
          question={question}
          watch={watch}
          since={on.get(question.name) ?? null}
          samples={samples.value}
        />
      ))}
    </ul>
  )
}

interface QuestionChartProps {
  readonly question: Watch['questions'][number]
  readonly watch: Watch
  /** When the event started that goes on; null for none. */
  readonly since: Date | null
  readonly samples: readonly Sample<Values>[]
}

interface Levels {
  readonly above: number
  readonly below: number
}

function QuestionChart({ question, watch, since, samples }: QuestionChartProps) {
  const { name, instructions, event } = question
  /** Where the thresholds are dragged to; null while they are not. */
  const dragged = useSignal<Levels | null>(null)
  const pieces = piecesOf(samples, (state) => state.get(name) ?? null)
  const last = samples.at(-1)?.state.get(name)
  const text = last === undefined ? '–' : last === null ? 'unsure' : chanceText(last)
  const levels = dragged.value ?? event
  const release = async () => {
    const changed = dragged.peek()
    if (changed === null || event === null) return
    const questions = watch.questions.map((one) =>
      one.name === name ? { ...one, event: { ...event, ...changed } } : one,
    )
    await changeWatch(watch, { questions })
    // Meanwhile it may have been moved again.
    if (dragged.peek() === changed) dragged.value = null
  }
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
          levels={levels === null ? [] : [levels.above, levels.below]}
          label={`${instructions} ${countText(samples.length)} looks: ${spoken}`}
        />
        {levels !== null && (
          <>
            <Threshold
              label={`Starts at, of ${instructions}`}
              value={levels.above}
              least={Math.min(1, levels.below + STEP)}
              most={1}
              onMove={(above) => {
                dragged.value = { above, below: levels.below }
              }}
              onRelease={() => void release()}
            />
            <Threshold
              label={`Ends below, of ${instructions}`}
              value={levels.below}
              least={0}
              most={Math.max(0, levels.above - STEP)}
              onMove={(below) => {
                dragged.value = { above: levels.above, below }
              }}
              onRelease={() => void release()}
            />
          </>
        )}
      </div>
      <span class={`state ${since === null ? '' : 'ready'}`}>
        {since !== null ? `On since ${timeText(since)}` : event === null ? 'No events' : 'Not now'}
      </span>
    </li>
  )
}
