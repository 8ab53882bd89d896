import { type Family, PLAIN } from '../family.ts'
import { qwen25Vl } from './qwen2.5-vl.ts'

/** One projector names an image encoder like Qwen2.5-VL's and an audio encoder. Its coordinate space is unknown. */
export const qwen25Omni: Family = {
  ...PLAIN,
  title: 'Qwen2.5-Omni',
  projectors: ['qwen2.5o'],
  architectures: ['qwen2vl'],
  image: qwen25Vl.image,
}
