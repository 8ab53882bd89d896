import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CameraError } from '../camera-session.ts'
import { chooseVariant, type MediaPlaylist, readPlaylist, type Variant } from './playlist.ts'

const uri = fc.stringMatching(/^[a-z][\w/.?=&-]{0,20}$/)
const playlists = fc
  .record({
    targetMs: fc.integer({ min: 1, max: 20 }).map((seconds) => seconds * 1000),
    first: fc.nat(),
    hasEnded: fc.boolean(),
    header: fc.option(uri),
    time: fc.option(fc.integer({ min: 1, max: 2e12 })),
    segments: fc.array(fc.tuple(uri, fc.nat(20_000), fc.boolean()), { maxLength: 8 }),
  })
  .map(({ first, header, time, segments, ...others }): MediaPlaylist => {
    let at = time
    return {
      ...others,
      segments: segments.map(([uri, durationMs, isDiscontinuous], i) => {
        const segment = { uri, sequence: first + i, durationMs, header, isDiscontinuous, time: at }
        at = at && at + durationMs
        return segment
      }),
    }
  })
const places = { minLength: 0, maxLength: 4 }
const comments = fc.array(
  fc.constantFrom(
    '',
    '# a comment',
    '#EXT-X-UNKNOWN:A="b,c",D=1',
    '#EXT-X-KEY:METHOD=NONE',
    // Low-latency parts may be byte ranges while the segments are whole files.
    '#EXT-X-PART:DURATION=0.2,URI="a.mp4",BYTERANGE="900@0"',
    '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="a.mp4",BYTERANGE-START=900',
  ),
  places,
)

function written({ targetMs, segments, hasEnded }: MediaPlaylist, between: readonly string[], newline: string): string {
  const lines = ['#EXTM3U', `#EXT-X-TARGETDURATION:${targetMs / 1000}`, ...between]
  const [first] = segments
  if (first !== undefined) lines.push(`#EXT-X-MEDIA-SEQUENCE:${first.sequence}`)
  if (first?.header) lines.push(`#EXT-X-MAP:URI="${first.header}"`)
  if (first !== undefined && first.time !== null)
    lines.push(`#EXT-X-PROGRAM-DATE-TIME:${new Date(first.time).toISOString()}`)
  for (const { uri, durationMs, isDiscontinuous } of segments) {
    if (isDiscontinuous) lines.push('#EXT-X-DISCONTINUITY')
    lines.push(`#EXTINF:${durationMs / 1000},a title`, ...between)
    lines.push(uri)
  }
  return [...lines, ...(hasEnded ? ['#EXT-X-ENDLIST'] : []), ''].join(newline)
}

describe('a playlist', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(playlists, comments, fc.constantFrom('\n', '\r\n'), (playlist, between, newline) => {
        const read = readPlaylist(written(playlist, between, newline)) as MediaPlaylist
        const rounded = read.segments.map((one) => ({ ...one, durationMs: Math.round(one.durationMs) }))
        expect({
          ...read,
          segments: rounded.map((one) => ({ ...one, time: one.time && Math.round(one.time) })),
        }).toEqual(playlist)
      }),
    )
  })

  it('is read or refused, with any lines', () => {
    const line = fc.oneof(
      fc.string(),
      fc.constantFrom('#EXT-X-STREAM-INF:', '#EXT-X-MAP:', '#EXT-X-KEY:METHOD=AES-128,URI="k"'),
      fc
        .tuple(fc.constantFrom('#EXTINF:', '#EXT-X-MEDIA-SEQUENCE:', '#EXT-X-PROGRAM-DATE-TIME:'), fc.string())
        .map((all) => all.join('')),
    )
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        try {
          const read = readPlaylist(['#EXTM3U', ...lines].join('\n'))
          if ('segments' in read)
            for (const { durationMs } of read.segments) expect(durationMs).toBeGreaterThanOrEqual(0)
          else chooseVariant(read)
        } catch (error) {
          if (!(error instanceof CameraError)) throw error
        }
      }),
    )
  })

  it('of 256 KiB takes no time', () => {
    for (const piece of [
      'A',
      ',',
      'A=',
      ',A="',
      '\n',
      '#EXT-X-MAP:URI="',
      '#EXTINF:1\na\n',
      '#EXT-X-STREAM-INF:A=1\na\n',
    ]) {
      const text = `#EXTM3U\n#EXT-X-STREAM-INF:${piece.repeat(262_144 / piece.length)}`
      for (const one of [text, text.replace('-STREAM-INF', '-MAP')]) {
        try {
          readPlaylist(one)
        } catch (error) {
          if (!(error instanceof CameraError)) throw error
        }
      }
    }
  })
})

describe('the variant', () => {
  const variants = (...given: Partial<Variant>[]) =>
    given.map((one, i) => ({ uri: `${i}`, bandwidth: 0, lines: 0, codecs: null, ...one }))
  it.each([
    [
      'the smallest that is large enough',
      variants({ lines: 2160 }, { lines: 1080 }, { lines: 720 }, { lines: 480 }),
      '2',
    ],
    ['the largest of small ones', variants({ lines: 240 }, { lines: 480 }, {}), '1'],
    ['the first, where no sizes are told', variants({ bandwidth: 2 }, { bandwidth: 1 }), '0'],
    ['the one with less bandwidth', variants({ lines: 720, bandwidth: 9 }, { lines: 720, bandwidth: 5 }), '1'],
    ['no sound', variants({ codecs: 'mp4a.40.2' }, { lines: 240, codecs: 'mp4a.40.2,avc1.64001f' }), '1'],
  ])('is %s', (_, given, chosen) => expect(chooseVariant(given).uri).toBe(chosen))

  it('is one that can be decoded', () => {
    expect(() => chooseVariant(variants({ codecs: 'av01.0.04M.08' }))).toThrow('no variant in H.264 or H.265')
  })
})
