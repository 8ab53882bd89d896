/** Opens a camera until `gone`. @param deviceId empty for the browser's choice. @returns null when `gone` came first. @throws DOMException; TypeError where pages may not ask */
export async function openCamera(deviceId: string, gone: AbortSignal): Promise<MediaStream | null> {
  const wanted = { width: { ideal: 1920 }, height: { ideal: 1080 } }
  const video = deviceId === '' ? wanted : { ...wanted, deviceId: { exact: deviceId } }
  const stream = await navigator.mediaDevices.getUserMedia({ video })
  const stop = () => {
    for (const track of stream.getTracks()) track.stop()
  }
  if (gone.aborted) {
    stop()
    return null
  }
  gone.addEventListener('abort', stop, { once: true })
  return stream
}

const SENTENCES: Readonly<Record<string, string>> = {
  NotAllowedError: 'The browser blocks the camera for this page. Allow it in the address bar, then try again.',
  NotFoundError: 'No camera was found.',
  OverconstrainedError: 'This camera is no longer connected.',
  NotReadableError: 'Another program is using the camera.',
  // Without TLS, browsers hide all cameras from pages of other machines.
  TypeError: 'Browsers allow the camera only on pages that are served over HTTPS or from this machine.',
}

/** For a person, why there is no camera. */
export function sentenceFor(error: unknown): string {
  return SENTENCES[(error as Error).name] ?? `The camera does not work: ${(error as Error).message}`
}
