import { colourOf } from '../marks/colours.ts'
import { chosenMark } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { timeText } from '../stage/time-text.ts'
import { Button } from '../widgets/button.tsx'
import { download } from '../widgets/download.ts'
import { counted, millisecondsText } from '../widgets/quantities.ts'
import { nameOf, type Sighting, TRACK_EXPORTS, tracked } from './tracks.ts'

/** What was followed through a video: a row for each object, and files of the tracks. The timeline is on the stage. */
export function TracksSection({ video }: { readonly video: Attachment }) {
  const found = tracked.value.get(video.id)
  if (found === undefined) return <p class="empty">Not searched yet. Objects are followed through the video.</p>
  const tracks = new Map<string, Sighting[]>()
  for (const sighting of found.sightings) {
    const name = nameOf(sighting)
    tracks.set(name, [...(tracks.get(name) ?? []), sighting])
  }
  const stem = video.name.replace(/[.][^.]+$/, '')
  return (
    <>
      <p role="status" class="track-facts">
        {counted(tracks.size, 'object')} followed through {counted(found.times.length, 'frame')} ·{' '}
        {millisecondsText(found.milliseconds)}
      </p>
      {found.isCut && <p class="empty">The answer was cut off, so objects may be missing.</p>}
      {tracks.size > 0 && (
        <>
          <ul class="pictures tracks" aria-label="Tracks">
            {[...tracks].map(([name, sightings]) => (
              <li key={name} style={{ '--mark': colourOf(name).fill }}>
                <button
                  type="button"
                  aria-current={sightings.some(({ id }) => id === chosenMark.value) ? 'true' : undefined}
                  onClick={() => {
                    chosenMark.value = sightings[0]!.id
                  }}
                >
                  <span class="chip-dot" />
                  <span>{name}</span>
                  <span class="count">
                    {timeText(sightings[0]!.seconds)} – {timeText(sightings.at(-1)!.seconds)},{' '}
                    {counted(sightings.length, 'frame')}
                  </span>
                </button>
              </li>
            ))}
          </ul>
          <section class="export-bar" aria-label="Export">
            <p class="empty">Frames are numbered as they were searched.</p>
            <div class="export-formats">
              {TRACK_EXPORTS.map(({ title, ending, toText }) => (
                <Button key={title} onClick={() => download(new Blob([toText(found, video)]), `${stem}.${ending}`)}>
                  {title}
                </Button>
              ))}
            </div>
          </section>
        </>
      )}
    </>
  )
}
