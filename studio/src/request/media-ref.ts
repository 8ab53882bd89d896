/** Media in the body of a request, in place of its base64. */
export class MediaRef {
  readonly blob: Blob
  /** Name of the user's file. */
  readonly name: string
  /** Where the server has it too: a path. Null for files of the user. */
  readonly path: string | null
  /** Whether the base64 stands alone, without `data:TYPE;base64,` before it. */
  readonly isBare: boolean

  constructor(blob: Blob, name: string, path: string | null, isBare: boolean) {
    this.blob = blob
    this.name = name
    this.path = path
    this.isBare = isBare
  }
}

/** Media that a snippet loads. */
export interface MediaFile {
  readonly media: MediaRef
  /** From 1, in the order of the body. */
  readonly number: number
  /** In the current folder; different for different media. Of no use for media that the server has. */
  readonly fileName: string
}

/** All media of a body, each once, in its order. */
export function mediaOf(body: unknown): ReadonlyMap<Blob, MediaFile> {
  const files = new Map<Blob, MediaFile>()
  const names = new Set<string>()
  const collect = (value: unknown): void => {
    if (value instanceof MediaRef) {
      if (files.has(value.blob)) return
      const fileName = value.path === null ? unusedName(fileNameOf(value), names) : ''
      files.set(value.blob, { media: value, number: files.size + 1, fileName })
    } else if (value !== null && typeof value === 'object') for (const child of Object.values(value)) collect(child)
  }
  collect(body)
  return files
}

const ENDINGS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  'image/png': ['png'],
  'image/jpeg': ['jpg', 'jpeg', 'jpe', 'jfif'],
  'image/webp': ['webp'],
  'audio/wav': ['wav', 'wave'],
}

/** The page turns some images into PNG and sounds into WAV; then the name says so too. */
function fileNameOf({ name, blob }: MediaRef): string {
  const plain = name.replaceAll(/[/\\\0]/g, '_') || 'media'
  const endings = ENDINGS[blob.type]
  if (endings === undefined) return plain
  const [, stem, ending] = /^(.+?)(?:[.]([^.]*))?$/s.exec(plain)!
  return endings.includes((ending ?? '').toLowerCase()) ? plain : `${stem}.${endings[0]}`
}

function unusedName(name: string, used: Set<string>): string {
  let unused = name
  for (let count = 2; used.has(unused); count++) unused = name.replace(/([.][^.]*)?$/s, `-${count}$1`)
  used.add(unused)
  return unused
}
