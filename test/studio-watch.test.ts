import fc from 'fast-check'
import { expect, test } from 'vitest'
import { goingOn, rowsOf, withEvents } from '../studio/src/watch/events/event-rows.ts'
import type { WatchEvent } from '../studio/src/watch/wire.ts'

/** What the Studio's list of a watch's events is made of. */

const AT = '2026-11-28T10:00:00.000Z'

/** Events of several questions that start and end, and others, in the order in which a watch tells them. */
const told = fc.array(fc.constantFrom('dog', 'cat', 'bird', 'offline'), { maxLength: 40 }).map((steps) => {
  const on = new Map<string, string>()
  return steps.map((step, i): WatchEvent => {
    const seq = i + 1
    const about = { object: 'event', created_at: 0 } as const
    if (step === 'offline') return { ...about, type: 'watch.offline', data: { seq, reason: 'silent' } }
    const before = on.get(step)
    const happening = before ?? `wev_${seq}`
    if (before === undefined) on.set(step, happening)
    else on.delete(step)
    const ended_at = before === undefined ? null : AT
    const frame = before === undefined ? { width: 4, height: 3, file_id: `file-${happening}` } : null
    const type = `watch.event.${before === undefined ? 'started' : 'ended'}`
    return { ...about, type, data: { seq, happening, question: step, started_at: AT, ended_at, frame } }
  })
})

test('however often and in which pieces events come, each has one line', () => {
  const arrivals = told.chain((events) =>
    fc.tuple(fc.constant(events), fc.array(fc.subarray(events), { maxLength: 4 }), fc.nat(events.length)),
  )
  fc.assert(
    fc.property(arrivals, ([events, again, cut]) => {
      const pieces = [events.slice(0, cut), ...again, events.slice(cut)]
      const known = pieces.reduce(withEvents, new Map<number, WatchEvent>())
      expect(known.size).toBe(events.length)
      const rows = rowsOf(known.values())
      expect(rows).toEqual(rowsOf(events))
      const happenings = events.flatMap(({ data }) => data.happening ?? [])
      const notes = events.filter(({ type }) => type === 'watch.offline')
      expect(rows).toHaveLength(new Set(happenings).size + notes.length)
      expect(rows.map(({ seq }) => seq)).toEqual(rows.map(({ seq }) => seq).toSorted((a, b) => b - a))
      for (const row of rows) {
        if (row.kind === 'note') continue
        // The picture is that of the start, and the end is known where it was told.
        expect(row.frame?.fileId).toBe(`file-${row.id}`)
        expect(row.endedAt !== null).toBe(happenings.filter((one) => one === row.id).length === 2)
      }
      const open = [...goingOn(rows).keys()].toSorted()
      const odd = ['bird', 'cat', 'dog'].filter(
        (name) => events.filter(({ data }) => data.question === name).length % 2 === 1,
      )
      expect(open).toEqual(odd)
    }),
  )
})

test('an end whose start is no longer kept is a line of its own, without a picture', () => {
  const data = {
    ...{ seq: 7, happening: 'wev_1', question: 'dog', reason: 'gap', started_at: AT },
    ...{ ended_at: '2026-11-28T10:00:09.000Z', peak_probability: 0.9, gaps: [{ from: AT, to: AT }], frame: null },
  }
  const [row] = rowsOf([{ object: 'event', type: 'watch.event.ended', created_at: 0, data }])
  expect(row).toMatchObject({ kind: 'happening', seq: 7, reason: 'gap', peak: 0.9, gaps: 1, frame: null, box: null })
})
