// Levels of x86-64 for which the kernels are precompiled, and the choice of one for a processor. Plain JavaScript:
// set-up may run on an older Node.
import { readFileSync } from 'node:fs'

/** @import { Level, Recipe } from './types.ts' */

/**
 * As in /proc/cpuinfo: the features that the psABI's x86-64-v3 and x86-64-v4 add, without those that every such
 * processor has.
 */
const V3 = ['avx', 'avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'abm', 'movbe', 'xsave']
const V4 = [...V3, 'avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl']

/** The features that ggml itself checks before it uses a library (cpu-feats.cpp). */
const V3_CHECKS = ['SSE42', 'AVX', 'AVX2', 'BMI2', 'FMA', 'F16C'].map((name) => `-DGGML_${name}`)
const V4_CHECKS = [...V3_CHECKS, '-DGGML_AVX512', '-DGGML_AVX512_VNNI']

/** The best first. @type {readonly Level[]} */
export const LEVELS = [
  {
    name: 'amx',
    needs: [...V4, 'avx512_vnni', 'avx512_bf16', 'amx_tile', 'amx_int8', 'amx_bf16'],
    flags: [
      ...['-march=x86-64-v4', '-mavx512vnni', '-mavx512bf16', '-mtune=sapphirerapids'],
      ...['-mamx-tile', '-mamx-int8', '-mamx-bf16'],
      ...[...V4_CHECKS, '-DGGML_AVX512_BF16', '-DGGML_AMX_INT8'],
    ],
  },
  {
    name: 'avx512',
    needs: [...V4, 'avx512_vnni'],
    flags: ['-march=x86-64-v4', '-mavx512vnni', '-mtune=icelake-server', ...V4_CHECKS],
  },
  { name: 'avx2', needs: V3, flags: ['-march=x86-64-v3', ...V3_CHECKS] },
]

/**
 * Levels that a processor supports, the best first.
 * @param {string} features flags of /proc/cpuinfo, separated by spaces.
 */
export function supportedLevels(features) {
  const present = new Set(features.split(' '))
  return LEVELS.filter(({ needs }) => needs.every((feature) => present.has(feature)))
}

/**
 * The recipe of a library for a level instead of this machine's processor.
 * @param {Recipe} recipe
 * @param {Level} level
 * @returns {Recipe}
 */
export function atLevel(recipe, { name, flags }) {
  return { ...recipe, level: name, flags: recipe.flags.flatMap((flag) => (flag === '-march=native' ? flags : flag)) }
}

/** The processor's features, sorted and separated by spaces; empty if the system does not list them. */
export function processorFeatures() {
  try {
    const line = /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))
    return (line?.[1] ?? '').trim().split(/\s+/).sort().join(' ')
  } catch {
    return ''
  }
}
