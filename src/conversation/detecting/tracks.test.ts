import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { seal } from '../../lib/secrets/seal.ts'
import { assign } from './assignment.ts'
import { LONGEST_NAME, labelKey, MOST_TRACKS, readState, writeState } from './track-state.ts'
import { type Sighting, Tracks } from './tracks.ts'

const PATIENT = { patience: 2, most: MOST_TRACKS }

function seen(x: number, y: number, more: Partial<Sighting> = {}): Sighting {
  return { label: 'circle', place: { x, y, width: 100, height: 100 }, name: null, ...more }
}

/** The tracks of the sightings of each frame, at two frames a second. */
function follow(frames: readonly (readonly Sighting[])[], tracks = new Tracks(null, PATIENT), from = 0) {
  return frames.map((sightings, index) => tracks.follow(from + index / 2, sightings))
}

describe('assignment', () => {
  const matrices = fc.tuple(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 5 })).chain(([rows, columns]) =>
    fc.array(fc.array(fc.integer({ min: -5, max: 20 }), { minLength: columns, maxLength: columns }), {
      minLength: rows,
      maxLength: rows,
    }),
  )

  test('has the largest sum of gains', () => {
    fc.assert(
      fc.property(matrices, (gains) => {
        const columns = assign(gains)
        expect(columns).toHaveLength(gains.length)
        const taken = columns.filter((column) => column !== null)
        expect(new Set(taken).size).toBe(taken.length)
        const paired = columns.flatMap((column, row) => (column === null ? [] : [gains[row]![column]!]))
        for (const gain of paired) expect(gain).toBeGreaterThan(0)
        expect(paired.reduce((sum, gain) => sum + gain, 0)).toBe(best(gains))
      }),
    )
  })

  function best([row, ...others]: readonly (readonly number[])[], taken = new Set<number>()): number {
    if (row === undefined) return 0
    const free = [...row.entries()].filter(([column]) => !taken.has(column))
    return Math.max(
      best(others, taken),
      ...free.map(([column, gain]) => gain + best(others, new Set([...taken, column]))),
    )
  }
})

describe('tracks', () => {
  test('a thing keeps its track while it moves, with sightings in any order', () => {
    const still = seen(900, 500)
    expect(
      follow([
        [seen(100, 100), still],
        [still, seen(180, 100)],
        [seen(260, 100), still],
      ]),
    ).toEqual([
      [1, 2],
      [2, 1],
      [1, 2],
    ])
  })

  test('a thing that comes back within the patience is the same one, where it would have gone', () => {
    const before = [[seen(100, 100)], [seen(150, 100)], [], [], []]
    expect(follow([...before, [seen(350, 100)]])).toEqual([[1], [1], [], [], [], [1]])
    expect(follow([...before, [], [seen(400, 100)]])).toEqual([[1], [1], [], [], [], [], [2]])
    expect(follow([...before, [seen(900, 800)]]).at(-1)).toEqual([2])
  })

  test('two things of one kind cross', () => {
    const frames = [0, 1, 2, 3, 4, 5].map((step) => [seen(100 + 80 * step, 300), seen(500 - 80 * step, 310)])
    expect(follow(frames)).toEqual(frames.map(() => [1, 2]))
  })

  test('names tell apart what places do not', () => {
    const tracks = named([seen(100, 100), seen(300, 100)], { 1: 'red circle', 2: 'blue circle' })
    const [red, blue] = [{ name: 'red circle' }, { name: 'blue circle' }]
    expect(tracks.follow(0.5, [seen(190, 100, blue), seen(210, 100, red)])).toEqual([2, 1])
  })

  test('what was sought continues a track of that name, and begins none', () => {
    const tracks = named([seen(100, 100), seen(500, 500)], { 1: 'red circle', 2: 'red circle' })
    const sought = { name: 'red circle', isSought: true }
    expect(
      tracks.follow(1, [seen(130, 100, sought), seen(100, 100, { name: 'red circle' }), seen(510, 500, sought)]),
    ).toEqual([null, 1, 2])
    expect(tracks.follow(2, [seen(100, 100, { ...sought, name: 'blue circle' })])).toEqual([null])
  })

  function named(sightings: readonly Sighting[], names: Readonly<Record<number, string>>): Tracks {
    const tracks = new Tracks(null, PATIENT)
    tracks.follow(0, sightings)
    tracks.name(new Map(Object.entries(names).map(([id, name]) => [Number(id), name])))
    return tracks
  }

  test('a track keeps its label', () => {
    expect(follow([[seen(100, 100)], [seen(100, 100, { label: 'square' })]])).toEqual([[1], [2]])
  })

  test('without patience, a slow camera still keeps what every frame shows', () => {
    const tracks = new Tracks(null, { ...PATIENT, patience: 0 })
    expect(tracks.follow(0, [seen(100, 100)])).toEqual([1])
    expect(tracks.follow(60, [seen(100, 100)])).toEqual([1])
    tracks.follow(61, [])
    expect(tracks.follow(62, [seen(100, 100)])).toEqual([2])
  })

  test('of too many, those that were seen last are kept', () => {
    const tracks = new Tracks(null, { ...PATIENT, most: 2 })
    tracks.follow(0, [seen(100, 100), seen(500, 100)])
    tracks.follow(0.5, [seen(900, 100), seen(500, 100)])
    expect(tracks.state.tracks.map(({ id }) => id)).toEqual([2, 3])
  })
})

const sightings = fc.array(
  fc
    .tuple(
      fc.record({
        x: fc.double({ min: 0, max: 2000, noNaN: true }),
        y: fc.double({ min: 0, max: 1000, noNaN: true }),
        width: fc.double({ min: 0, max: 2000, noNaN: true }),
        height: fc.double({ min: 0, max: 1000, noNaN: true }),
      }),
      fc.constantFrom('a', 'b'),
    )
    .map(([place, label]): Sighting => ({ label, place, name: null })),
  { maxLength: 6 },
)
const clips = fc.array(fc.tuple(sightings, fc.double({ min: 0, max: 3, noNaN: true })), { maxLength: 8 })

describe('a state', () => {
  test('makes no difference: frames one by one are followed as all at once', () => {
    fc.assert(
      fc.property(clips, (frames) => {
        const tracks = new Tracks(null, PATIENT)
        let text: string | null = null
        let time = 0
        for (const [sightings, wait] of frames) {
          time += wait
          const alone: Tracks = new Tracks(text === null ? null : readState(text), PATIENT)
          expect(alone.follow(time, sightings)).toEqual(tracks.follow(time, sightings))
          expect(alone.state).toEqual(tracks.state)
          alone.name(new Map([[1, 'red circle']]))
          tracks.name(new Map([[1, 'red circle']]))
          text = writeState(alone.state)
        }
      }),
    )
  })

  test('no two things of a frame have one track, and ids are never used again', () => {
    fc.assert(
      fc.property(clips, (frames) => {
        const tracks = new Tracks(null, PATIENT)
        let [time, most] = [0, 0]
        for (const [sightings, wait] of frames) {
          time += wait
          const ids = tracks.follow(time, sightings).map((id) => id!)
          expect(new Set(ids).size).toBe(ids.length)
          const begun = ids.filter((id) => id > most)
          expect(begun).toEqual([...begun.keys()].map((index) => most + index + 1))
          most += begun.length
        }
      }),
    )
  })

  test('always stays below 8 KB when it is sealed', () => {
    const state = fc.record({
      at: fc.integer({ min: 0, max: 4e12 }),
      nextId: fc.integer({ min: 1, max: 1e6 }),
      tracks: fc.array(
        fc.record({
          id: fc.integer({ min: 1, max: 1e6 }),
          label: fc.string({ maxLength: 200 }).map(labelKey),
          name: fc.uint8Array({ maxLength: LONGEST_NAME / 2 }).map((bytes) => Buffer.from(bytes).toString('hex')),
          x: fc.integer({ min: -9999, max: 99_999 }).map((value) => value / 10),
          y: fc.integer({ min: -9999, max: 99_999 }).map((value) => value / 10),
          width: fc.integer({ min: 0, max: 99_999 }).map((value) => value / 10),
          height: fc.integer({ min: 0, max: 9999 }).map((value) => value / 10),
          speed: fc.record({
            x: fc.integer({ min: -999_999, max: 999_999 }).map((value) => value / 10),
            y: fc.integer({ min: -999_999, max: 999_999 }).map((value) => value / 10),
          }),
          seenAt: fc.constant(0),
        }),
        { minLength: MOST_TRACKS, maxLength: MOST_TRACKS },
      ),
    })
    fc.assert(
      fc.property(state, (given) => {
        const tracks = given.tracks.map((track, index) => ({ ...track, seenAt: given.at - 900 * index }))
        const text = writeState({ ...given, tracks })
        expect(readState(text)).toEqual({ ...given, tracks })
        expect(seal(text, 'secret', []).length).toBeLessThan(8_000)
      }),
    )
  })
})
