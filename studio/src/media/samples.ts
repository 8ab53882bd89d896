import { bring } from './attachments.ts'
import type { Sample } from './sample-list.ts'

export { SAMPLES } from './sample-list.ts'

/**
 * A photograph for models that know photographs: by Rachel Michetti, in the public domain (CC0), from scikit-image, where it
 * is called `coffee`.
 */
export const PHOTOGRAPH = { name: 'coffee.jpg', path: '/studio/samples/coffee.jpg' }

/** Puts a sample on the stage. */
export async function bringSample({ name, path }: Pick<Sample, 'name' | 'path'>): Promise<void> {
  const response = await fetch(path)
  await bring([{ blob: await response.blob(), name, path }])
}
