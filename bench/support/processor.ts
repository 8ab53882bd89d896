/**
 * Measurements as on another processor: Lookout's kernels and the peer are compiled for one that has less than this
 * machine's, such as one with AVX2 alone. Memory and clock stay this machine's.
 */
import { copyFile, mkdir, rm, symlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import {
  buildName,
  CPU,
  cacheDirectory,
  libraryDirectory,
  libraryFile,
  MTMD,
  writeManifest,
} from '../../src/setup/native-library.mjs'
import { locatePrebuilt } from '../../src/setup/prebuilt.mjs'
import { kernelsFor } from './kernels.ts'

let current: string | null = null

/** The compiler's name of the processor that is measured; null for this machine's. */
export const targetProcessor = (): string | null => current

/**
 * Has this process, and all that it starts, use a cache folder of its own, in which the kernels are compiled for a
 * processor. Models are shared.
 * @param processor the compiler's name of it; this machine's must be able to run its code.
 */
export async function useProcessor(processor: string): Promise<void> {
  const { platform } = locatePrebuilt()
  const kernels = await kernelsFor(processor, true)
  const real = cacheDirectory()
  const folder = join(real, 'bench', `processor-${processor}`)
  const native = join(folder, 'native')
  await mkdir(join(real, 'bench'), { recursive: true })
  await mkdir(native, { recursive: true })
  await link(join(real, 'bench'), join(folder, 'bench'))
  const encoder = libraryDirectory(MTMD, platform)
  await link(encoder, join(native, basename(encoder)))
  const target = join(native, buildName(CPU, platform))
  await mkdir(target, { recursive: true })
  await copyFile(kernels, join(target, libraryFile(CPU)))
  writeManifest(target, CPU, platform, null)
  process.env.LOOKOUT_CACHE_DIR = folder
  current = processor
}

async function link(target: string, path: string): Promise<void> {
  await rm(path, { force: true })
  await symlink(target, path)
}
