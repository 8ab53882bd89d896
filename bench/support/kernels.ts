/** ggml's kernels compiled for another processor than this one, with our products and without, to be compared. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compileLibrary, findCompiler } from '../../src/setup/compile.mjs'
import { CPU, cacheDirectory, ownSources, SOURCE_INTEGRITY } from '../../src/setup/native-library.mjs'
import { locatePrebuilt } from '../../src/setup/prebuilt.mjs'
import { fetchSource } from '../../src/setup/source.mjs'
import type { Recipe } from '../../src/setup/types.ts'
import { warn } from './machine.ts'

const PROJECT_ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Compiles them, less than a minute on two cores, unless the cache has them.
 * @param processor the compiler's name of it: `x86-64-v3` has AVX2, `alderlake` AVX-VNNI too.
 * @param isOurs whether products of quantised weights are ours.
 * @returns the path of the library.
 */
export async function kernelsFor(processor: string, isOurs: boolean): Promise<string> {
  const recipe = recipeFor(processor, isOurs)
  const files = [...ownSources(recipe), ...(recipe.ownHeaders ?? []).map((name) => join(PROJECT_ROOT, name))]
  const hash = createHash('sha256').update(JSON.stringify(recipe) + SOURCE_INTEGRITY)
  for (const file of files) hash.update(readFileSync(file))
  const folder = join(cacheDirectory(), 'bench')
  const library = join(folder, `kernels-${processor}-${hash.digest('hex').slice(0, 12)}.so`)
  if (existsSync(library)) return library
  await mkdir(folder, { recursive: true })
  const workspace = await mkdtemp(join(folder, 'making-'))
  try {
    warn(`Compiling the kernels for ${processor}${isOurs ? '' : ', with ggml’s own products'}.`)
    const output = join(workspace, 'kernels.so')
    await compileLibrary(recipe, {
      compiler: await findCompiler(),
      source: await fetchSource(workspace, PROJECT_ROOT, recipe.folders),
      objects: join(workspace, 'objects'),
      output,
      prebuilt: locatePrebuilt(),
      progress: () => {},
    })
    await rename(output, library)
    return library
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
}

function recipeFor(processor: string, isOurs: boolean): Recipe {
  const flags = CPU.flags.map((flag) => (flag === '-march=native' ? `-march=${processor}` : flag))
  if (isOurs) return { ...CPU, flags }
  const own = CPU.own?.filter((name) => !/\/gemm(-f16|-f32)?\.cpp$/.test(name)) ?? []
  const sources = [...CPU.sources, 'ggml-cpu/llamafile/sgemm.cpp']
  return { ...CPU, flags, own: [...own, 'bench/support/depends-on-batch.cpp'], sources }
}
