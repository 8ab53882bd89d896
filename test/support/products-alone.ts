import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import koffi from 'koffi'
import { declareIn } from '../../src/inference/local/native/declare.ts'
import { LEVELS } from '../../src/setup/levels.mjs'
import { SetupError } from '../../src/setup/native-library.mjs'
import { compileAlone } from './kernels-alone.ts'

const SOURCE = fileURLToPath(new URL('products-alone.cpp', import.meta.url))
const KERNELS = [
  'micro-kernel',
  'gemm',
  'gemm-activations',
  'gemm-amx',
  'gemm-avx2',
  'gemm-avx512',
  'gemm-panel',
  'gemv',
  'quant-blocks',
  'amx-tiles',
].map((name) => fileURLToPath(new URL(join('../../src/inference/local/native/kernels', `${name}.h`), import.meta.url)))

/** What g++ and clang++ say to a flag that they do not know. */
const UNKNOWN_FLAG = /unrecognized command|unknown argument/

const level = (name: string) => LEVELS.find((one) => one.name === name)!

/** Processors that products are compiled for, and what this one needs to run them. */
const PROCESSORS = {
  AMX: level('amx'),
  'AVX-512': level('avx512'),
  AVX2: { needs: ['avx2', 'fma', 'f16c'], flags: ['-march=x86-64-v3'] },
  'AVX-VNNI': { needs: ['avx2', 'fma', 'f16c', 'avx_vnni'], flags: ['-march=x86-64-v3', '-mavxvnni'] },
} as const satisfies Record<string, { readonly needs: readonly string[]; readonly flags: readonly string[] }>
export type Processor = keyof typeof PROCESSORS

/** A batch of `n` rows and `m` rows of weights, each of a number of blocks; both as ggml quantises them. */
export interface QuantisedProduct {
  readonly type: number
  readonly threads: number
  readonly m: number
  readonly n: number
  readonly blocks: number
  readonly weights: Uint8Array
  readonly rows: Uint8Array
}

/** Whether this machine's processor has features, as Linux names them. */
export function hasFeatures(...names: readonly string[]): boolean {
  if (process.platform !== 'linux' || process.arch !== 'x64') return false
  const [flags = ''] = /^flags.*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8')) ?? []
  return names.every((name) => flags.split(' ').includes(name))
}

/**
 * @returns what computes our products as compiled for a processor, [n][m]; null where this machine does not run them, or
 *   has nothing to compile them with.
 * @throws Error when the compiler rejects their source, on a machine that does not run them as well.
 */
export async function productsFor(processor: Processor): Promise<((of: QuantisedProduct) => Float32Array) | null> {
  if (process.platform !== 'linux' || process.arch !== 'x64') return null
  const { needs, flags } = PROCESSORS[processor]
  const alone = { name: 'products', source: SOURCE, kernels: KERNELS, flags }
  const library = await compileAlone(alone).catch((error: Error) => {
    // An older compiler does not know every processor.
    if (!(error instanceof SetupError) && !UNKNOWN_FLAG.test(error.message)) throw error
    console.warn(`Cannot compile products for ${processor}: ${error.message}`)
    return null
  })
  if (library === null || !hasFeatures(...needs)) return null
  const multiply = declareIn(koffi.load(library))(
    'void multiply(int type, int threads, int64 m, int64 n, int64 blocks, bytes weights, bytes rows, floats out)',
  )
  return ({ type, threads, m, n, blocks, weights, rows }) => {
    const out = new Float32Array(m * n)
    multiply(type, threads, m, n, blocks, weights, rows, out)
    return out
  }
}
