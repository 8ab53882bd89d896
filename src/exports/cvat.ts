import type { TrackedBox, TrackedClip } from './tracked-clip.ts'

/**
 * Tracks in the format "CVAT for video 1.1" (docs.cvat.ai, its XML annotation format). CVAT interpolates a track
 * between two boxes, so a track that is not seen in a searched frame ends there, until it is seen again. CVAT does not
 * need `meta`; Datumaro and FiftyOne read the labels and the size of the frames from it.
 */
export function toCvat({ boxes, frames, size }: TrackedClip): string {
  const ids = [...new Set(boxes.map(({ track }) => track))].sort((one, other) => one - other)
  const tracks = ids.map((id, index) => {
    const own = new Map(boxes.filter(({ track }) => track === id).map((box) => [box.frame, box]))
    const lines: string[] = []
    let last: TrackedBox | null = null
    for (const frame of frames) {
      const box = own.get(frame)
      if (box !== undefined) lines.push(boxElement(box, frame, false))
      else if (last !== null) lines.push(boxElement(last, frame, true))
      last = box ?? null
    }
    const label = escaped([...own.values()][0]!.label)
    return `  <track id="${index}" label="${label}">\n${lines.join('')}  </track>\n`
  })
  const labels = [...new Set(boxes.map(({ label }) => `<label><name>${escaped(label)}</name></label>`))].join('')
  const sides = size && `<original_size><width>${size.width}</width><height>${size.height}</height></original_size>`
  const meta = `<meta><task><labels>${labels}</labels>${sides ?? ''}</task></meta>`
  const head = `<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n  ${meta}\n`
  return `${head}${tracks.join('')}</annotations>\n`
}

function boxElement({ left, top, right, bottom }: TrackedBox, frame: number, isOutside: boolean): string {
  const flags = `outside="${isOutside ? 1 : 0}" occluded="0" keyframe="1"`
  return `    <box frame="${frame}" ${flags} xtl="${left}" ytl="${top}" xbr="${right}" ybr="${bottom}" z_order="0"></box>\n`
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Characters that XML cannot hold become spaces. */
function escaped(text: string): string {
  return text.replace(/[\p{Cc}\ufffe\uffff]/gu, ' ').replace(/[&<>"]/g, (character) => ENTITIES[character]!)
}
