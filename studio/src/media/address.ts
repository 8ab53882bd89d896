import { signal } from '@preact/signals'
import { callBlob } from '../server/call.ts'
import { isAbort, toFailure } from '../server/failure.ts'
import { addressIn, nameIn } from './address-text.ts'
import { bring, intakeError } from './attachments.ts'

/** The address that media is being fetched from; null when none is. */
export const fetching = signal<string | null>(null)

/**
 * Puts the media at an address on the stage. The server fetches it: the page itself may call no other host.
 * @returns whether it is there; if not, `intakeError` says why, unless `stop` was aborted.
 */
export async function bringAddress(address: string, stop?: AbortSignal): Promise<boolean> {
  intakeError.value = null
  fetching.value = address
  try {
    const blob = address.startsWith('data:')
      ? blobOf(address)
      : await callBlob('/studio/fetch', {
          method: 'POST',
          body: { url: address },
          noted: false,
          ...(stop && { signal: stop }),
        })
    return (await bring([{ blob, name: nameIn(address) }])).length > 0
  } catch (error) {
    if (isAbort(error)) return false
    intakeError.value = `${toFailure(error).message.replace(/[.]$/, '')}.`
    return false
  } finally {
    fetching.value = null
  }
}

/** The address of what is dragged from another page: a picture rather than the link around it. */
export function draggedAddress(html: string, list: string): string | null {
  const picture = new DOMParser().parseFromString(html, 'text/html').querySelector('img[src], video[src], audio[src]')
  const source = picture?.getAttribute('src') ?? ''
  if (/^data:(image|video|audio)\//i.test(source)) return source
  return addressIn(source) ?? addressIn(list.split('\n').find((line) => !line.startsWith('#')) ?? '')
}

function blobOf(url: string): Blob {
  const [head = '', body = ''] = url.split(',', 2)
  const type = /^data:([^;,]*)/i.exec(head)?.[1] ?? ''
  const text = /;base64$/i.test(head) ? atob(body) : decodeURIComponent(body)
  return new Blob([Uint8Array.from(text, (character) => character.charCodeAt(0))], { type })
}
