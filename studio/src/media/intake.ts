import { bringAddress, draggedAddress } from './address.ts'
import { addressIn } from './address-text.ts'
import { bring } from './attachments.ts'

/**
 * Takes files, pictures of other pages, and addresses that are dropped or pasted anywhere on the page. @returns a function
 * that stops it.
 */
export function watchDropsAndPastes(onDragging: (isDragging: boolean) => void): () => void {
  let depth = 0
  const hasMedia = ({ dataTransfer }: DragEvent) =>
    dataTransfer !== null && (dataTransfer.types.includes('Files') || dataTransfer.types.includes('text/uri-list'))
  const listeners = {
    dragenter: (event: DragEvent) => {
      if (!hasMedia(event)) return
      event.preventDefault()
      if (++depth === 1) onDragging(true)
    },
    dragover: (event: DragEvent) => {
      if (hasMedia(event)) event.preventDefault()
    },
    dragleave: (event: DragEvent) => {
      if (hasMedia(event) && --depth === 0) onDragging(false)
    },
    drop: (event: DragEvent) => {
      if (!hasMedia(event)) return
      event.preventDefault()
      depth = 0
      onDragging(false)
      const { files } = event.dataTransfer!
      if (files.length > 0) return void bringFiles(files)
      const [html, list] = [event.dataTransfer!.getData('text/html'), event.dataTransfer!.getData('text/uri-list')]
      const address = draggedAddress(html, list)
      if (address !== null) void bringAddress(address)
    },
    paste: (event: ClipboardEvent) => {
      const files = event.clipboardData?.files
      if (files !== undefined && files.length > 0) {
        event.preventDefault()
        void bringFiles(files)
        return
      }
      // In a field, an address is text.
      if ((event.target as Element | null)?.closest?.('input, textarea, [contenteditable]')) return
      const address = addressIn(event.clipboardData?.getData('text/plain') ?? '')
      if (address !== null) void bringAddress(address)
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
