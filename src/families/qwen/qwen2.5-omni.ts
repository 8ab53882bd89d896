import { type Family, PLAIN } from '../family.ts'
import { qwen25Vl } from './qwen2.5-vl.ts'

/**
 * One projector stands for an image encoder like that of Qwen2.5-VL and an audio
 * encoder. In which space it gives coordinates is not known here.
 */
export const qwen25Omni: Family = {
  ...PLAIN,
  title: 'Qwen2.5-Omni',
  projectors: ['qwen2.5o'],
  architectures: ['qwen2vl'],
  image: qwen25Vl.image,
}
