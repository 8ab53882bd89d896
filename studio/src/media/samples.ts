import { bring } from './attachments.ts'
import type { Sample } from './sample-list.ts'

export { SAMPLES } from './sample-list.ts'

/** Puts a sample on the stage. */
export async function bringSample({ name, path }: Pick<Sample, 'name' | 'path'>): Promise<void> {
  const response = await fetch(path)
  await bring([{ blob: await response.blob(), name, path }])
}
