import { bring } from './attachments.ts'

/** Takes dropped and pasted files anywhere on the page. @returns a function that stops it. */
export function watchDropsAndPastes(onDragging: (isDragging: boolean) => void): () => void {
  let depth = 0
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true
  const listeners = {
    dragenter: (event: DragEvent) => {
      if (!hasFiles(event)) return
      event.preventDefault()
      if (++depth === 1) onDragging(true)
    },
    dragover: (event: DragEvent) => {
      if (hasFiles(event)) event.preventDefault()
    },
    dragleave: (event: DragEvent) => {
      if (hasFiles(event) && --depth === 0) onDragging(false)
    },
    drop: (event: DragEvent) => {
      if (!hasFiles(event)) return
      event.preventDefault()
      depth = 0
      onDragging(false)
      void bringFiles(event.dataTransfer!.files)
    },
    paste: (event: ClipboardEvent) => {
      const files = event.clipboardData?.files
      if (files === undefined || files.length === 0) return
      event.preventDefault()
      void bringFiles(files)
    },
  } as const
  for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener as EventListener)
  return () => {
    for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener as EventListener)
  }
}

/** @returns false when the file is not for it. */
type FileTaker = (file: File) => Promise<boolean>
const takers: FileTaker[] = []

/** Offers each file that is brought to the page to `taker` first: some are no media. */
export function offerFiles(taker: FileTaker): void {
  takers.push(taker)
}

export async function bringFiles(files: Iterable<File>): Promise<void> {
  const media: File[] = []
  for (const file of [...files]) {
    let isTaken = false
    for (const take of takers) isTaken ||= await take(file)
    if (!isTaken) media.push(file)
  }
  await bring(media.map((file) => ({ blob: file, name: file.name })))
}
