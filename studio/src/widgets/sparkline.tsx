import type { Point } from './history.ts'

interface SparklineProps {
  /** Pieces without gaps. */
  readonly pieces: readonly (readonly Point[])[]
  /** Time of the right edge. */
  readonly until: number
  /** From the left edge to the right one, in milliseconds. */
  readonly span: number
  /** Value of the upper edge. */
  readonly ceiling: number
  /** Values that lines are drawn at, from the left edge to the right one. */
  readonly levels?: readonly number[]
  /** What a screen reader says. */
  readonly label: string
}

const WIDTH = 200
const HEIGHT = 44
/** Half of the line's width stays inside. */
const INSET = 1

/** A figure over the last minutes: a line over its area, from the left edge to now. */
export function Sparkline({ pieces, until, span, ceiling, levels = [], label }: SparklineProps) {
  const height = (value: number) => (INSET + (HEIGHT - 2 * INSET) * (1 - Math.min(1, value / ceiling))).toFixed(1)
  const place = ({ at, value }: Point) => `${(WIDTH * (1 - (until - at) / span)).toFixed(1)},${height(value)}`
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {levels.map((level) => (
        <path key={level} class="level" d={`M0 ${height(level)}H${WIDTH}`} />
      ))}
      {pieces.map((points) => {
        const line = points.map(place)
        const [first, last] = [line[0]!, line.at(-1)!]
        const foot = (point: string) => `${point.split(',')[0]},${HEIGHT}`
        return (
          <g key={points[0]!.at}>
            <path class="area" d={`M${foot(first)}L${line.join('L')}L${foot(last)}Z`} />
            {/* A piece of one point is a dot: its line has no length, and round ends. */}
            <path class="line" d={`M${line.join('L')}${line.length === 1 ? 'h0' : ''}`} />
          </g>
        )
      })}
    </svg>
  )
}
