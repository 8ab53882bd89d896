import { signal } from '@preact/signals'
import { offerFiles } from '../../media/intake.ts'
import { fetchSample, SAMPLES } from '../../media/samples.ts'
import { modeId } from '../../mode-choice.ts'
import { chosen, isMaking } from '../watches.ts'

/** Where frames come from. */
export type Source =
  | { readonly kind: 'camera'; readonly deviceId: string }
  | { readonly kind: 'video'; readonly name: string; readonly blob: Blob; readonly repeats: boolean }

/** What the next watch that is shown begins with; null for nothing. */
export const nextSource = signal<Source | 'sample' | null>(null)

/** The video among the samples, again and again. */
export async function sampleSource(): Promise<Source> {
  const { name, path } = SAMPLES.find(({ icon }) => icon === 'video')!
  return { kind: 'video', name, blob: await fetchSample(path), repeats: true }
}

// A video that is dropped on a watch is for the watch, not for the stage.
offerFiles(async (file) => {
  const isTaken =
    modeId.peek() === 'watch' &&
    chosen.peek()?.source.type === 'push' &&
    !isMaking.peek() &&
    file.type.startsWith('video/')
  if (isTaken) nextSource.value = { kind: 'video', name: file.name, blob: file, repeats: false }
  return isTaken
})
