import { faultText } from '../source/camera-faults.ts'
import type { WatchEvent } from '../wire.ts'

/** A line of the list of events: something that has started, and may have ended, or what became of the frames. */
export type EventRow = HappeningRow | NoteRow

export interface HappeningRow {
  readonly kind: 'happening'
  readonly id: string
  readonly seq: number
  readonly question: string
  readonly startedAt: Date
  /** Null while it goes on. */
  readonly endedAt: Date | null
  /** Why it ended; null while it goes on. */
  readonly reason: string | null
  /** The highest probability so far. */
  readonly peak: number
  /** Times in which nothing was seen. */
  readonly gaps: number
  /** Its first frame; null where that was not kept. */
  readonly frame: { readonly fileId: string; readonly width: number; readonly height: number } | null
  readonly box: WatchEvent['data']['box']
  /** Whether there is a video of it; null where none is made. */
  readonly clip: NonNullable<WatchEvent['data']['clip']>['status'] | null
}

interface NoteRow {
  readonly kind: 'note'
  readonly id: string
  readonly seq: number
  readonly at: Date
  readonly text: string
}

/** The events by their numbers, with those that are new. What is there already is not taken twice. */
export function withEvents(
  known: ReadonlyMap<number, WatchEvent>,
  added: readonly WatchEvent[],
): ReadonlyMap<number, WatchEvent> {
  const fresh = added.filter(({ data }) => !known.has(data.seq))
  return fresh.length === 0 ? known : new Map([...known, ...fresh.map((event) => [event.data.seq, event] as const)])
}

/** The newest first. The end of an event stands in the line of its start. */
export function rowsOf(events: Iterable<WatchEvent>): readonly EventRow[] {
  const rows = new Map<string, EventRow>()
  for (const event of [...events].sort((one, other) => one.data.seq - other.data.seq)) {
    const { happening, seq } = event.data
    if (happening === undefined) {
      const row = noteOf(event)
      if (row !== null) rows.set(`note ${seq}`, row)
      continue
    }
    const before = rows.get(happening)
    const clip = event.data.clip?.status
    if (event.type === 'watch.event.clip') {
      if (before?.kind === 'happening' && clip !== undefined) rows.set(happening, { ...before, clip })
      continue
    }
    const row = happeningOf(event, happening)
    if (before?.kind !== 'happening') rows.set(happening, row)
    else {
      const { seq, frame, box } = before
      rows.set(happening, { ...row, seq, frame, box, clip: row.clip ?? before.clip })
    }
  }
  return [...rows.values()].sort((one, other) => other.seq - one.seq)
}

/** The questions whose events go on, with the time of their start. */
export function goingOn(rows: readonly EventRow[]): ReadonlyMap<string, Date> {
  return new Map(
    rows.flatMap((row) => (row.kind === 'happening' && row.endedAt === null ? [[row.question, row.startedAt]] : [])),
  )
}

function happeningOf({ data }: WatchEvent, id: string): HappeningRow {
  const {
    seq,
    question = '',
    started_at,
    ended_at,
    reason,
    peak_probability = 0,
    gaps = [],
    frame,
    box = null,
    clip,
  } = data
  return {
    ...{
      kind: 'happening',
      id,
      seq,
      question,
      peak: peak_probability,
      gaps: gaps.length,
      box,
      clip: clip?.status ?? null,
    },
    startedAt: new Date(started_at!),
    endedAt: ended_at ? new Date(ended_at) : null,
    reason: reason ?? null,
    frame: frame?.file_id ? { fileId: frame.file_id, width: frame.width, height: frame.height } : null,
  }
}

const GAPS: Readonly<Record<string, string>> = {
  stopped: 'Nothing was seen while the server or the watch was stopped',
  waiting: 'Nothing was seen while the watch waited',
  silent: 'Nothing was seen, because no frames came',
}

function noteOf({ type, created_at, data: { seq, reason, question, message } }: WatchEvent): NoteRow | null {
  const texts: Readonly<Record<string, string>> = {
    'watch.offline': `Offline: ${faultText(reason) ?? 'no frames come'}`,
    'watch.online': 'Online: frames come again',
    'watch.failed': `Looks fail${message === undefined ? '' : `: ${message}`}`,
    'watch.lagging': 'Fewer than half of the looks are made in time',
    'watch.gap': GAPS[reason ?? ''] ?? 'Nothing was seen for a while',
    'watch.event.suppressed': `${question ?? 'A question'}: 60 events in an hour; more are not reported`,
  }
  const text = texts[type]
  return text === undefined ? null : { kind: 'note', id: `note ${seq}`, seq, at: new Date(created_at * 1000), text }
}
