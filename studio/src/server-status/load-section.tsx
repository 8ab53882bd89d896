import { effect, signal } from '@preact/signals'
import { piecesOf, roundCeiling, type Sample, spanOf, withSample } from '../widgets/history.ts'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { bytesText, countText, durationText, rateText, shareText } from '../widgets/quantities.ts'
import { Sparkline } from '../widgets/sparkline.tsx'
import { stateText } from './state-text.ts'
import { askStatus, status, statusFailure } from './status.ts'
import type { EngineStatus, ServerStatus } from './status-body.ts'

/** The last few minutes, as far as somebody looked. */
const samples = signal<readonly Sample<ServerStatus>[]>([])
effect(() => {
  if (status.value === null) return
  samples.value = withSample(samples.peek(), { at: performance.now(), state: status.value })
})

interface Figure {
  readonly title: string
  /** Null where there is nothing to count yet. */
  readonly of: (status: ServerStatus) => number | null
  readonly text: (value: number) => string
  /** A small fact beside the value; by default the highest one of the chart. */
  readonly aside?: (status: ServerStatus) => string
  /** Value of the chart's upper edge. */
  readonly ceiling: (values: readonly number[], status: ServerStatus) => number
}

const counted = (values: readonly number[]) => roundCeiling(values, 5)
const whole = () => 1
const allMemory = (_: unknown, { memory }: ServerStatus) => memory.total_bytes

const FIGURES: readonly Figure[] = [
  {
    title: 'Tokens per second',
    of: (status) => status.tokens_per_second,
    text: rateText,
    ceiling: counted,
  },
  {
    title: 'Running',
    of: (status) => status.running,
    text: countText,
    ceiling: counted,
  },
  {
    title: 'In the queue',
    of: (status) => status.queued,
    text: countText,
    ceiling: counted,
  },
  {
    title: 'Prompts from a cache',
    of: (status) => status.cached_share,
    text: shareText,
    ceiling: whole,
  },
  {
    title: 'Memory of the engines',
    of: ({ memory }) => memory.engine_bytes,
    text: bytesText,
    ceiling: counted,
  },
  {
    title: 'Memory available',
    of: ({ memory }) => memory.available_bytes,
    text: bytesText,
    aside: ({ memory }) => `of ${bytesText(memory.total_bytes)}`,
    ceiling: allMemory,
  },
]

/** How busy the server is, now and in the last minutes. */
export function LoadSection() {
  const now = status.value
  const failure = statusFailure.value
  return (
    <div class="server-section">
      {failure && <FailureNotice failure={failure} onRetry={() => void askStatus()} />}
      {now === null ? (
        failure === null && <p class="empty">Loading…</p>
      ) : (
        <>
          <ul class="figures" aria-label="Load">
            {FIGURES.map((figure) => (
              <FigureTile key={figure.title} figure={figure} now={now} samples={samples.value} />
            ))}
          </ul>
          <h2 id="engines-title">Engines</h2>
          <ul class="engines" aria-labelledby="engines-title">
            {now.engines.map((engine) => (
              <EngineRow key={engine.models.join()} engine={engine} />
            ))}
          </ul>
          <p class="small-fact">
            Lookout {now.version}, up for {durationText(now.uptime_seconds)}. The server itself takes{' '}
            {bytesText(now.memory.process_bytes)}. The charts go back at most 5 minutes, as far as this page has looked.
          </p>
        </>
      )}
    </div>
  )
}

interface FigureTileProps {
  readonly figure: Figure
  readonly now: ServerStatus
  readonly samples: readonly Sample<ServerStatus>[]
}

function FigureTile({ figure: { title, of, text, aside, ceiling }, now, samples }: FigureTileProps) {
  const pieces = piecesOf(samples, of)
  const values = pieces.flatMap((points) => points.map(({ value }) => value))
  const value = of(now)
  const shown = value === null ? '–' : text(value)
  const most = value === null ? null : text(Math.max(...values))
  const beside = aside?.(now) ?? (most === null || most === shown ? '' : `most ${most}`)
  return (
    <li class="figure">
      <span class="figure-title">{title}</span>
      <span class="figure-value">
        {shown}
        {beside && <span class="small-fact">{beside}</span>}
      </span>
      <Sparkline
        pieces={pieces}
        until={samples.at(-1)?.at ?? 0}
        span={spanOf(samples)}
        ceiling={ceiling(values, now)}
        label={`${title} in the last minutes: ${most === null ? 'not known' : `now ${shown}, at most ${most}`}`}
      />
    </li>
  )
}

function EngineRow({ engine }: { readonly engine: EngineStatus }) {
  const facts = [
    `${countText(engine.running)} running`,
    `${countText(engine.queued)} queued`,
    `${rateText(engine.tokens_per_second)} tokens/s`,
    ...(engine.cached_share === null ? [] : [`${shareText(engine.cached_share)} from a cache`]),
    ...(engine.memory_bytes === null ? [] : [bytesText(engine.memory_bytes)]),
  ]
  return (
    <li class="engine">
      <span class="engine-name">{engine.models.join(', ')}</span>
      <span class={`state ${engine.state}`}>{stateText(engine.state)}</span>
      {engine.state !== 'unloaded' && <span class="small-fact">{facts.join(' · ')}</span>}
    </li>
  )
}
