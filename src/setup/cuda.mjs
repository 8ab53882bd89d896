// Compiles the CUDA backend with the machine's own CUDA toolkit. Plain JavaScript: set-up may run on an older Node.
import { realpathSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { CUDA, compiledDirectory, publish } from './backends.mjs'
import { compileLibrary } from './compile.mjs'
import { checkKernels } from './kernel-check.mjs'
import { isInstalled, run } from './run.mjs'

/** Path of CUDA's compiler; null without one. */
export async function findNvcc({ CUDACXX, CUDA_PATH } = process.env) {
  for (const nvcc of [CUDACXX, CUDA_PATH && join(CUDA_PATH, 'bin', 'nvcc'), 'nvcc', '/usr/local/cuda/bin/nvcc']) {
    if (nvcc && (await isInstalled(nvcc))) return pathOf(nvcc)
  }
  return null
}

/** Where the shell would find a program. */
async function pathOf(program) {
  return program.includes('/') ? program : (await run('sh', ['-c', 'command -v "$0"', program])).trim()
}

/**
 * Compiles the backend for this machine's GPU and puts it into the cache, if it computes what it should.
 * @param to `nvcc` is the path of the compiler, `workspace` an empty folder on the cache's file system; `progress` is
 * called with the number of files done and of all files.
 * @returns what is wrong with the result; null when nothing is.
 * @throws Error when it cannot be compiled.
 */
export async function compileCuda(backend, { nvcc, source, workspace, prebuilt, progress, env = process.env }) {
  const product = join(workspace, 'compiled')
  await mkdir(product)
  const output = join(product, basename(backend.file))
  // The toolkit's libraries need not be where the loader looks.
  const libraries = join(dirname(dirname(realpathSync(nvcc))), 'lib64')
  await compileLibrary(CUDA, {
    compiler: [nvcc],
    source,
    objects: join(workspace, 'objects-cuda'),
    output,
    prebuilt,
    linkFlags: ['-Xlinker', `-rpath=${libraries}`],
    progress,
  })
  const refusal = await checkKernels(output, prebuilt)
  if (refusal !== null) return refusal
  const target = compiledDirectory(backend, prebuilt.platform, env)
  // One that is there already was compiled for another GPU.
  await rm(target, { recursive: true, force: true })
  await publish(backend, product, target)
  return null
}
