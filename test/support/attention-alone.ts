import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import koffi from 'koffi'
import { declareIn } from '../../src/inference/local/native/declare.ts'
import { findCompiler } from '../../src/setup/compile.mjs'
import { cacheDirectory, SOURCE_INTEGRITY } from '../../src/setup/native-library.mjs'
import { run } from '../../src/setup/run.mjs'
import { fetchSource } from '../../src/setup/source.mjs'

const PROJECT_ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SOURCE = fileURLToPath(new URL('attention-alone.cpp', import.meta.url))
const KERNEL = join(PROJECT_ROOT, 'src/inference/local/native/kernels/attention.h')
const FLAGS = ['-O2', '-std=c++17', '-fPIC', '-shared', '-D_GNU_SOURCE', '-DGGML_SHARED']
const INCLUDES = ['ggml/src', 'ggml/include', 'ggml/src/ggml-cpu']

/** `struct Shape` in attention-alone.cpp. */
export interface AttentionShape {
  /** ggml's type of keys and values. */
  readonly type: number
  readonly width: number
  readonly rows: number
  readonly heads: number
  readonly key_heads: number
  readonly cells: number
  readonly streams: number
  readonly threads: number
}

/** Tensors as ggml lays them out; `out` is written. */
export interface AttentionData {
  readonly scale: number
  readonly queries: Float32Array
  readonly keys: Uint8Array
  readonly values: Uint8Array
  readonly mask: Uint8Array
  readonly out: Float32Array
}

/** Whether this machine's processor runs what is compiled for AVX2, FMA and F16C. */
export function hasAvx2(): boolean {
  if (process.platform !== 'linux' || process.arch !== 'x64') return false
  const [flags = ''] = /^flags.*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8')) ?? []
  return ['avx2', 'fma', 'f16c'].every((name) => flags.split(' ').includes(name))
}

/**
 * Our attention, compiled for a processor with AVX2 and no more.
 * @returns a function that computes it; null where there is no compiler, or no source of ggml to compile it with.
 */
export async function compileForAvx2(): Promise<((shape: AttentionShape, data: AttentionData) => void) | null> {
  const library = await build('x86-64-v3').catch((error: Error) => {
    console.warn(`Cannot compile attention for AVX2: ${error.message}`)
    return null
  })
  if (library === null) return null
  const fields = ['type', 'width', 'rows', 'heads', 'key_heads', 'cells', 'streams', 'threads']
  const shape = koffi.struct(Object.fromEntries(fields.map((name) => [name, 'int32'])))
  const attend = declareIn(koffi.load(library))<
    (of: AttentionShape, scale: number, ...data: (Float32Array | Uint8Array)[]) => number
  >('attend', 'int', [koffi.pointer(shape), 'float', 'void *', 'void *', 'void *', 'void *', 'void *'])
  return (of, { scale, queries, keys, values, mask, out }) => {
    if (attend(of, scale, queries, keys, values, mask, out) !== 0) throw new Error('Attention leaves this to ggml.')
  }
}

/** Compiles it once for each version of the sources. @returns the path of the library. */
async function build(processor: string): Promise<string> {
  const hash = createHash('sha256').update([SOURCE_INTEGRITY, processor, ...FLAGS].join())
  for (const file of [SOURCE, KERNEL]) hash.update(readFileSync(file))
  const folder = join(cacheDirectory(), 'tests')
  const library = join(folder, `attention-${hash.digest('hex').slice(0, 12)}.so`)
  if (existsSync(library)) return library
  const [compiler, ...args] = await findCompiler()
  await mkdir(folder, { recursive: true })
  const workspace = await mkdtemp(join(folder, 'building-'))
  try {
    const source = await fetchSource(workspace, PROJECT_ROOT, ['ggml'])
    const includes = INCLUDES.map((name) => `-I${join(source, name)}`)
    const output = join(workspace, 'attention.so')
    await run(compiler, [...args, ...FLAGS, `-march=${processor}`, ...includes, SOURCE, '-o', output, '-lpthread'])
    await rename(output, library)
    return library
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
}
