import type { Family } from '../family.ts'
import { qwen3Vl } from './qwen3-vl.ts'

/** It sees and grounds as Qwen3-VL does, and calls tools as Qwen3-Coder does. */
export const qwen35: Family = {
  ...qwen3Vl,
  title: 'Qwen3.5',
  architectures: ['qwen35', 'qwen35moe'],
  toolSyntax: 'qwen3_coder',
}
