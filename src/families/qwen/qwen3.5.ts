import type { Family } from '../family.ts'
import { qwen3Vl } from './qwen3-vl.ts'

/** It sees and grounds like Qwen3-VL, and calls tools like Qwen3-Coder. */
export const qwen35: Family = {
  ...qwen3Vl,
  title: 'Qwen3.5',
  architectures: ['qwen35', 'qwen35moe'],
  toolSyntax: 'qwen3_coder',
}
