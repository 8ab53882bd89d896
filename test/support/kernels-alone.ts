import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import koffi from 'koffi'
import { declareIn } from '../../src/inference/local/native/declare.ts'
import { findCompiler } from '../../src/setup/compile.mjs'
import { cacheDirectory, SetupError, SOURCE_INTEGRITY } from '../../src/setup/native-library.mjs'
import { run } from '../../src/setup/run.mjs'
import { fetchSource } from '../../src/setup/source.mjs'

const PROJECT_ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SOURCE = fileURLToPath(new URL('kernels-alone.cpp', import.meta.url))
const KERNELS = [
  'micro-kernel.h',
  'floats.h',
  'panels.h',
  'attention.h',
  'encoder-attention.h',
  'gelu.h',
  'gemm-f16.cpp',
  'gemm-f32.cpp',
].map((name) => join(PROJECT_ROOT, 'src/inference/local/native/kernels', name))
const FLAGS = ['-O2', '-std=c++17', '-fPIC', '-shared', '-D_GNU_SOURCE', '-DGGML_SHARED']
const INCLUDES = ['ggml/src', 'ggml/include', 'ggml/src/ggml-cpu']

/** Fields of `struct Shape` in kernels-alone.cpp, in their order there. `type` is ggml's, of keys and values. */
const SHAPE = ['type', 'width', 'value_width', 'rows', 'heads', 'key_heads', 'cells', 'streams', 'threads'] as const
export type AttentionShape = Readonly<Record<(typeof SHAPE)[number], number>>

/** Tensors as ggml lays them out; `out` is written. */
export interface AttentionData {
  readonly scale: number
  /** Scores are `cap` times the hyperbolic tangent of their `cap`th part. 0 for none. */
  readonly cap?: number
  readonly queries: Float32Array
  readonly keys: Uint8Array
  readonly values: Uint8Array
  /** Null where every row sees every cell. */
  readonly mask: Uint8Array | null
  /** By head: the score of a cell that every row sees, and that has no value. */
  readonly sinks?: Float32Array | null
  /** By cell: the higher, the later it was written. Left out where cells are in order. */
  readonly stamps?: BigUint64Array
  readonly out: Float32Array
}

/** Whether this machine's processor runs what is compiled for AVX2, FMA and F16C. */
export function hasAvx2(): boolean {
  return has('avx2', 'fma', 'f16c')
}

/** Whether this machine's processor runs what is compiled for AVX-512. */
export function hasAvx512(): boolean {
  return has('avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl')
}

function has(...features: string[]): boolean {
  if (process.platform !== 'linux' || process.arch !== 'x64') return false
  const [flags = ''] = /^flags.*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8')) ?? []
  return features.every((name) => flags.split(' ').includes(name))
}

/** Weights, [m][k], and a batch of rows, [n][k], both of f16 or f32. */
export interface FloatsProduct {
  readonly threads: number
  readonly m: number
  readonly n: number
  readonly k: number
  readonly weights: Uint8Array
  readonly rows: Uint8Array
}

export interface KernelsAlone {
  attend(shape: AttentionShape, data: AttentionData): void
  /** @returns the products, [n][m]. */
  multiply(type: 'f16' | 'f32', product: FloatsProduct): Float32Array
  gelu(x: Float32Array): Float32Array
  geluQuick(x: Float32Array): Float32Array
  geglu(x: Float32Array, factors: Float32Array): Float32Array
}

/**
 * Our kernels, compiled for a processor with AVX2 and no more.
 * @returns null where there is no compiler, or no source of ggml to compile them with.
 * @throws Error when the compiler rejects their source.
 */
export async function compileForAvx2(): Promise<KernelsAlone | null> {
  return await compileFor('x86-64-v3')
}

/** The same for a processor with AVX-512. */
export async function compileForAvx512(): Promise<KernelsAlone | null> {
  return await compileFor('x86-64-v4')
}

async function compileFor(processor: string): Promise<KernelsAlone | null> {
  const alone = { name: 'kernels', source: SOURCE, kernels: KERNELS, flags: [`-march=${processor}`] }
  const library = await compileAlone(alone).catch((error: Error) => {
    if (!(error instanceof SetupError)) throw error
    console.warn(`Cannot compile the kernels for ${processor}: ${error.message}`)
    return null
  })
  if (library === null) return null
  const declare = declareIn(koffi.load(library))
  const attend = declare(
    `int attend(int32s shape, float scale, float cap, floats queries, bytes keys, bytes values, bytes? mask, floats? sinks,
      uint64s? stamps, floats out)`,
  )
  const product = '(int threads, int64 m, int64 n, int64 k, bytes weights, bytes rows, floats out)'
  const multiply = { f16: declare(`int multiply_f16${product}`), f32: declare(`int multiply_f32${product}`) }
  const gelu = declare('void gelu_of(int count, floats x, floats out)')
  const geluQuick = declare('void gelu_quick_of(int count, floats x, floats out)')
  const geglu = declare('void geglu_of(int count, floats x, floats factors, floats out)')
  const filled = (count: number, write: (out: Float32Array) => void) => {
    const out = new Float32Array(count)
    write(out)
    return out
  }
  const done = (code: number) => {
    if (code !== 0) throw new Error('This is left to ggml.')
  }
  return {
    attend: (of, { scale, cap = 0, queries, keys, values, mask, sinks = null, stamps = null, out }) => {
      const shape = Int32Array.from(SHAPE, (field) => of[field])
      done(attend(shape, scale, cap, queries, keys, values, mask, sinks, stamps, out))
    },
    multiply: (type, { threads, m, n, k, weights, rows }) =>
      filled(m * n, (out) => done(multiply[type](threads, m, n, k, weights, rows, out))),
    gelu: (x) => filled(x.length, (out) => gelu(x.length, x, out)),
    geluQuick: (x) => filled(x.length, (out) => geluQuick(x.length, x, out)),
    geglu: (x, factors) => filled(x.length, (out) => geglu(x.length, x, factors, out)),
  }
}

/** What is compiled by itself. */
export interface Alone {
  readonly name: string
  /** Path of the file that includes the kernels. */
  readonly source: string
  /** Paths of the kernels that it includes. */
  readonly kernels: readonly string[]
  /** For the compiler: of which processor. */
  readonly flags: readonly string[]
}

/** Compiles it once for each version of the sources. @returns the path of the library. */
export async function compileAlone({ name, source: file, kernels, flags }: Alone): Promise<string> {
  const hash = createHash('sha256').update([SOURCE_INTEGRITY, ...flags, ...FLAGS].join())
  for (const path of [file, ...kernels]) hash.update(readFileSync(path))
  const folder = join(cacheDirectory(), 'tests')
  const library = join(folder, `${name}-${hash.digest('hex').slice(0, 12)}.so`)
  if (existsSync(library)) return library
  const [compiler, ...args] = await findCompiler()
  await mkdir(folder, { recursive: true })
  const workspace = await mkdtemp(join(folder, 'building-'))
  try {
    const source = await fetchSource(workspace, PROJECT_ROOT, ['ggml'])
    const includes = INCLUDES.map((folder) => `-I${join(source, folder)}`)
    const output = join(workspace, `${name}.so`)
    await run(compiler, [...args, ...FLAGS, ...flags, ...includes, file, '-o', output, '-lpthread'])
    await rename(output, library)
    return library
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
}
