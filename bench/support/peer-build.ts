/**
 * The peer: llama.cpp's own `llama-server` and `llama-batched-bench`, built from the source of exactly the release that
 * Lookout's engine uses (the tarball that set-up downloads and verifies), for this machine's processor. The build stays
 * in set-up's cache folder and is not part of the project.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findCompiler } from '../../src/setup/compile.mjs'
import { cacheDirectory, LLAMA_RELEASE, SetupError, SOURCE_INTEGRITY } from '../../src/setup/native-library.mjs'
import { locatePrebuilt } from '../../src/setup/prebuilt.mjs'
import { isInstalled, run } from '../../src/setup/run.mjs'
import { fetchSource } from '../../src/setup/source.mjs'
import { gpus } from './gpus.ts'
import { targetProcessor } from './processor.ts'

export interface Peer {
  readonly release: string
  readonly server: string
  readonly batchedBench: string
  /** A GGUF file with Qwen2's vocabulary but no weights, from llama.cpp's own tests. */
  readonly vocabulary: string
}

const PROJECT_ROOT = fileURLToPath(new URL('../..', import.meta.url))
const TARGETS = ['llama-server', 'llama-batched-bench']
export const VOCABULARY = 'ggml-vocab-qwen2.gguf'
/** Release build; without TLS and the web page, which no measurement uses. */
const OPTIONS = [
  '-DCMAKE_BUILD_TYPE=Release',
  '-DLLAMA_BUILD_IS_DEV=OFF',
  '-DLLAMA_BUILD_TESTS=OFF',
  '-DLLAMA_BUILD_EXAMPLES=OFF',
  '-DLLAMA_BUILD_APP=OFF',
  '-DLLAMA_BUILD_UI=OFF',
  '-DLLAMA_USE_PREBUILT_UI=OFF',
  '-DLLAMA_OPENSSL=OFF',
]
/** With the native instruction set, or with that of the processor that is measured. */
function cpuOptions(): readonly string[] {
  const processor = targetProcessor()
  const flags = ['C', 'CXX'].map((language) => `-DCMAKE_${language}_FLAGS_RELEASE=-O3 -DNDEBUG -march=${processor}`)
  return ['-DBUILD_SHARED_LIBS=OFF', ...(processor === null ? ['-DGGML_NATIVE=ON'] : ['-DGGML_NATIVE=OFF', ...flags])]
}
/**
 * The programs alone. They load the prebuilt backends that lie beside them: the GPU's that Lookout uses, and the CPU's.
 * Those expect libraries whose names have no version.
 */
const GPU_OPTIONS = [
  ...['-DBUILD_SHARED_LIBS=ON', '-DGGML_BACKEND_DL=ON', '-DGGML_NATIVE=OFF', '-DGGML_CPU=OFF'],
  ...['-DCMAKE_PLATFORM_NO_VERSIONED_SONAME=ON', '-DCMAKE_BUILD_RPATH=$ORIGIN'],
]

/**
 * Included before every C++ file: the fix of `src/inference/local/native/kernels/amx.cpp`, without which a peer that
 * GCC 12 has built crashes on processors with AMX at the first product of quantised weights.
 */
const TILE_FIX = `#pragma once
#if defined(__AMX_TILE__)
#include <immintrin.h>
static inline void load_tile_configuration(const void * configuration) {
    __asm__ volatile("ldtilecfg %0" ::"m"(*(const char (*)[64]) configuration));
}
#define _tile_loadconfig(configuration) load_tile_configuration(configuration)
#endif
`
/**
 * The peer in the folder that BENCH_PEER names, for machines that cannot build one, or else from the cache; null
 * when it has not been built for this processor.
 */
export function findPeer(): Peer | null {
  const directory = process.env.BENCH_PEER ?? peerDirectory()
  const peer = {
    release: LLAMA_RELEASE,
    server: join(directory, 'llama-server'),
    batchedBench: join(directory, 'llama-batched-bench'),
    vocabulary: join(directory, VOCABULARY),
  }
  return existsSync(peer.server) ? peer : null
}

/** @throws SetupError with the command that builds the peer. */
export function requirePeer(): Peer {
  const peer = findPeer()
  if (peer !== null) return peer
  throw new SetupError(
    'This benchmark compares with a peer that is not built yet. Build it with: npm run bench -- peer',
  )
}

/**
 * Builds the peer unless it exists, in 10 to 20 minutes on two cores. An interrupted build is resumed.
 * @throws SetupError when a tool is missing.
 */
export async function buildPeer(jobs: number): Promise<Peer> {
  const built = findPeer()
  if (built !== null) return built
  const compiler = await findCompiler()
  if (!(await isInstalled('cmake'))) {
    throw new SetupError('"cmake" is missing. Install it (Debian, Ubuntu: apt-get install cmake) and try again.')
  }
  const target = peerDirectory()
  const workspace = join(dirname(target), `building-${target.slice(dirname(target).length + 1)}`)
  const release = await lock(workspace)
  try {
    const source = join(workspace, 'source')
    const complete = join(workspace, 'source-complete')
    if (!existsSync(complete)) {
      await rm(source, { recursive: true, force: true })
      await fetchSource(workspace, PROJECT_ROOT, ['.'])
      await writeFile(complete, '')
    }
    const build = join(workspace, 'build')
    const [command, ...compilerArgs] = compiler
    const fix = join(workspace, 'tile-fix.h')
    await writeFile(fix, TILE_FIX)
    await show('cmake', ['-S', source, '-B', build, `-DCMAKE_CXX_COMPILER=${command}`, ...options()], {
      CXXFLAGS: [...compilerArgs, `-include "${fix}"`, process.env.CXXFLAGS ?? ''].join(' ').trim(),
    })
    await show('cmake', ['--build', build, '--parallel', String(jobs), '--target', ...TARGETS])
    const product = join(workspace, 'product')
    await rm(product, { recursive: true, force: true })
    await mkdir(product)
    for (const name of await readdir(join(build, 'bin'))) await copyFile(join(build, 'bin', name), join(product, name))
    await addBackends(product)
    await copyFile(join(source, 'models', VOCABULARY), join(product, VOCABULARY))
    await run(join(product, 'llama-server'), ['--version'])
    await rename(product, target)
    await rm(workspace, { recursive: true, force: true })
  } finally {
    await release()
  }
  return requirePeer()
}

const options = () => [...OPTIONS, ...(gpus() === null ? cpuOptions() : GPU_OPTIONS)]

/** Has the programs in the folder find the backends that Lookout uses, where they have none of their own. */
async function addBackends(folder: string): Promise<void> {
  const gpu = gpus()
  if (gpu === null) return
  const { directory } = locatePrebuilt()
  const ofCpu = (await readdir(directory)).filter((name) => name.startsWith('libggml-cpu-'))
  for (const path of [gpu.library, ...ofCpu.map((name) => join(directory, name))]) {
    await symlink(path, join(folder, basename(path)))
  }
}

/** Named by everything that determines the build: a native build for one processor may not run on another. */
function peerDirectory(): string {
  const { platform } = locatePrebuilt()
  const recipe = JSON.stringify([SOURCE_INTEGRITY, options(), TARGETS, TILE_FIX, cpus()[0]?.model, gpus()?.library])
  const hash = createHash('sha256').update(recipe).digest('hex').slice(0, 12)
  return join(cacheDirectory(), 'native', `llama.cpp-${LLAMA_RELEASE}-${platform}-${hash}`)
}

/** Allows one build at a time. A lock whose process has ended is ignored. Returns a function that releases the lock. */
async function lock(workspace: string): Promise<() => Promise<void>> {
  await mkdir(workspace, { recursive: true })
  const file = join(workspace, 'lock')
  const owner = Number(await readFile(file, 'utf8').catch(() => '0'))
  if (owner !== 0 && isRunning(owner)) {
    throw new SetupError(`Process ${owner} is already building the peer in ${workspace}. Wait until it ends.`)
  }
  await writeFile(file, String(process.pid))
  return () => rm(file, { force: true })
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Runs a program with its output on standard error. */
function show(command: string, args: readonly string[], environment: Record<string, string> = {}): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 2, 2], env: { ...process.env, ...environment } })
    child.on('error', reject)
    child.on('exit', (code, signal) => {
      if (code === 0) resolve()
      else reject(new SetupError(`${command} ended with ${signal ?? `exit code ${code}`}.`))
    })
  })
}
