import { computed, signal } from '@preact/signals'
import { model } from '../server/connection.ts'
import type { Attachment } from './attachment.ts'

/** Whether videos are sent to be heard as well as seen. */
export const sendsSound = signal(false)

/** Whether the model can hear. */
export const canHear = computed(() => model.value?.modalities.includes('audio') === true)

/** What a request about these media says of it in `vision_config`. */
export function soundtrackOptions(media: readonly Attachment[]): { readonly enable_audio_in_video?: true } {
  const isWanted = sendsSound.value && canHear.value && media.some(({ kind }) => kind === 'video')
  return isWanted ? { enable_audio_in_video: true } : {}
}
