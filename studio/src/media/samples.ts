import { bring, intakeError } from './attachments.ts'
import type { Sample } from './sample-list.ts'

export { SAMPLES } from './sample-list.ts'

/** @throws Error with a sentence for the user */
export async function fetchSample(path: string): Promise<Blob> {
  const response = await fetch(path).catch(() => null)
  const blob = response?.ok ? await response.blob().catch(() => null) : null
  if (blob === null) throw new Error('The server did not send the sample.')
  return blob
}

/** Puts a sample on the stage. @returns whether it is there; if not, `intakeError` says why. */
export async function bringSample({ name, path }: Pick<Sample, 'name' | 'path'>): Promise<boolean> {
  try {
    return (await bring([{ blob: await fetchSample(path), name, path }])).length > 0
  } catch (error) {
    intakeError.value = (error as Error).message
    return false
  }
}
