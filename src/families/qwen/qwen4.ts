import type { Family } from '../family.ts'
import { qwen35 } from './qwen3.5.ts'

/** Qwen3.8-Flash-Next: it has the vision tower of Qwen3-VL. */
export const qwen4: Family = {
  ...qwen35,
  title: 'Qwen4 (experimental), Qwen3.8-Flash-Next',
  architectures: ['qwen4exp'],
  toolSyntax: null,
}
