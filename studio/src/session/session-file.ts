import { type MediaKind, toDataUrl } from '../media/attachment.ts'
import type { SavedMedia, SessionContent } from './session-store.ts'
import { listOf, numberOf, orNull, recordOf, textOf } from './shape.ts'

/*
 * A session as one JSON file, which docs/contributing/session-file.md describes:
 * {"lookout_session": 1, "title", "saved_at", "parts": {name: ...}, "media": [{"id", "kind", "name", "data", ...}]}
 */

const VERSION = 1
const FIELD = 'lookout_session'

export interface SessionFile extends SessionContent {
  readonly title: string
}

/** The file in pieces: as one string, a session with videos could be too long for the browser. */
export async function writeSessionFile({ title, parts, media }: SessionFile): Promise<Blob> {
  const head = { [FIELD]: VERSION, title, saved_at: new Date().toISOString(), parts }
  const pieces: string[] = [JSON.stringify(head, null, 1).replace(/\n\}$/, ''), ',\n "media": [']
  for (const [index, one] of media.entries()) {
    const { blob: _, ...about } = one
    pieces.push(index === 0 ? '\n  ' : ',\n  ', JSON.stringify({ ...about, data: await toDataUrl(one) }))
  }
  return new Blob([...pieces, media.length === 0 ? ']\n}\n' : '\n ]\n}\n'], { type: 'application/json' })
}

/**
 * @returns null when the file is of another kind, and perhaps of use elsewhere.
 * @throws Error with a sentence for the user.
 */
export async function readSessionFile(file: Blob, name: string): Promise<SessionFile | null> {
  const text = await file.text()
  // Also of a file that ends early.
  const isOurs = new RegExp(`"${FIELD}"\\s*:`).test(text.slice(0, 2000))
  if (!isOurs) return null
  let isNewer = false
  try {
    const content = recordOf(JSON.parse(text))
    const version = content[FIELD]
    isNewer = typeof version === 'number' && version > VERSION
    if (version !== VERSION) throw new Error('an unknown version')
    return {
      title: textOf(content.title).slice(0, 200),
      parts: recordOf(content.parts),
      media: listOf(content.media, readMedia),
    }
  } catch {
    throw new Error(
      isNewer
        ? `${name} was saved by a newer Studio. Update this server to open it.`
        : `${name} is damaged: it is not a complete session.`,
    )
  }
}

const KINDS: readonly string[] = ['image', 'video', 'audio'] satisfies MediaKind[]

function readMedia(value: unknown): SavedMedia {
  const { data, kind, path, ...rest } = recordOf(value)
  if (!KINDS.includes(textOf(kind))) throw new Error('an unknown kind of media')
  const where = orNull(path, textOf)
  return {
    ...rest,
    id: textOf(rest.id),
    name: textOf(rest.name),
    kind: kind as MediaKind,
    width: numberOf(rest.width),
    height: numberOf(rest.height),
    duration: numberOf(rest.duration),
    path: where?.startsWith('/studio/samples/') ? where : null,
    blob: blobOf(textOf(data)),
  }
}

function blobOf(dataUrl: string): Blob {
  const [, type, base64] = /^data:((?:image|video|audio)\/[\w.+-]+)[^,]*;base64,(.*)$/s.exec(dataUrl) ?? []
  if (type === undefined) throw new Error('expected a data URL')
  return new Blob([Uint8Array.from(atob(base64!), (character) => character.charCodeAt(0))], { type })
}
