// GPU backends of ggml: the list of them, where their libraries are stored, and how they are downloaded. They are too
// large to be dependencies of every installation. Plain JavaScript: set-up may run on an older Node.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  cacheDirectory,
  LLAMA_RELEASE,
  libraryDirectory,
  MANIFEST_FILE,
  SetupError,
  SOURCE_INTEGRITY,
  sha256,
} from './native-library.mjs'
import { run } from './run.mjs'
import { fetchTarball, needPrograms } from './tarball.mjs'

/** @import { Backend, FindBackend, GpuBackend, Recipe } from './types.ts' */

/** @type {readonly Backend[]} */
const BACKENDS = ['auto', 'cpu', 'vulkan', 'cuda', 'metal']

/**
 * Backends that set-up can fetch, by platform; the preferred one first. `file` is the library within the package's
 * tarball. Metal is part of the package that macOS has anyway.
 * @type {Readonly<Record<string, readonly GpuBackend[]>>}
 */
export const GPU_BACKENDS = {
  'linux-x64': [
    {
      name: 'cuda',
      package: '@node-llama-cpp/linux-x64-cuda',
      integrity: 'sha512-idsE55VoD/FbvLhnBC9krUJaUoC0XnebseAAnCpm/brKf61HEbu+idgbb5eN6mxkjLSrHtILprJ0nDcUJjVrFg==',
      file: 'package/bins/linux-x64-cuda/libggml-cuda.so',
    },
    {
      name: 'vulkan',
      package: '@node-llama-cpp/linux-x64-vulkan',
      integrity: 'sha512-flEeSzONQ6OIm5bYKLQf4eEnBzcC5WugFbyPUwkCqyyOFZ8pH0H9ulQ7ZNDLSIczeKneMRJornlyY1Hq7d3GDA==',
      file: 'package/bins/linux-x64-vulkan/libggml-vulkan.so',
    },
  ],
}

/**
 * The CUDA backend, compiled for the GPUs of this machine. The downloaded one has machine code for few GPUs, none of
 * them with HBM. For all others the driver must compile it, which a driver older than its toolkit cannot.
 * @type {Recipe}
 */
export const CUDA = {
  name: 'cuda',
  what: "the CUDA backend for this machine's GPU",
  source: SOURCE_INTEGRITY,
  folders: ['ggml'],
  root: 'ggml/src/ggml-cuda',
  includes: ['ggml/src', 'ggml/include', 'ggml/src/ggml-cuda'],
  // As in ggml's CMakeLists.txt.
  sources: [
    '*.cu',
    ...['fattn-tile', 'fattn-mma', 'mmq', 'mmf'].map((kind) => `template-instances/${kind}*.cu`),
    ...['f16', 'q4_0', 'q8_0', 'bf16'].map((type) => `template-instances/fattn-vec-instance-${type}-${type}.cu`),
  ],
  own: ['gemm', 'logits', 'graphs'].map((name) => `src/inference/local/native/device/${name}.cu`),
  fixes: [
    // See gemm.cu.
    {
      file: 'ggml/src/ggml-cuda/ggml-cuda.cu',
      text: '    if (ggml_cuda_should_use_mmq(src0->type, cc, ne11, /*n_experts =*/ 0)) {\n',
      by: `    extern bool lookout_prefers_bf16_gemm(const ggml_tensor *, const ggml_tensor *, const ggml_tensor *, int);
    if (lookout_prefers_bf16_gemm(src0, src1, dst, cc)) {
        ggml_cuda_mul_mat_cublas_impl<GGML_TYPE_BF16>(ctx, src0, src1, dst);
        return;
    }
    if (ggml_cuda_should_use_mmq(src0->type, cc, ne11, /*n_experts =*/ 0)) {
`,
    },
    // See graphs.cu.
    {
      file: 'ggml/src/ggml-cuda/ggml-cuda.cu',
      text: 'static const void * ggml_cuda_graph_get_key(ggml_cgraph * cgraph) {\n    return cgraph->nodes[0];\n',
      by: `extern const void * lookout_graph_key(const ggml_cgraph *);
static const void * ggml_cuda_graph_get_key(ggml_cgraph * cgraph) {
    return lookout_graph_key(cgraph);
`,
    },
    // See logits.cu.
    {
      file: 'ggml/src/ggml-cuda/ggml-cuda.cu',
      text: '    CUDA_CHECK(cudaMemcpyAsync(data, (const char *) tensor->data + offset, size, cudaMemcpyDeviceToHost, cuda_ctx->stream()));\n',
      by: `    const char * from = (const char *) tensor->data + offset;
    extern bool lookout_keeps_logits(const char *, const void *, void *, size_t, int, cudaStream_t);
    if (lookout_keeps_logits(tensor->name, from, data, size, cuda_ctx->device, cuda_ctx->stream())) return;
    CUDA_CHECK(cudaMemcpyAsync(data, from, size, cudaMemcpyDeviceToHost, cuda_ctx->stream()));
`,
    },
  ],
  nvcc: true,
  flags: [
    ...['-O3', '-arch=native', '-Xcompiler=-fPIC', '-use_fast_math', '-extended-lambda', '-compress-mode=size'],
    ...['-DNDEBUG', '-D_GNU_SOURCE', '-DGGML_SHARED', '-DGGML_BACKEND_SHARED', '-DGGML_BACKEND_BUILD'],
    ...['-DGGML_BACKEND_DL', '-DGGML_CUDA_USE_GRAPHS', '-DGGML_SCHED_MAX_COPIES=4'],
  ],
  bytesPerJob: 2 * 2 ** 30,
  needs: ['ggmlBase'],
  libraries: ['-cudart', 'shared', '-lcublas', '-lcuda'],
}

/** Compute capabilities, times ten, for which the package's CUDA backend has machine code. */
export const CUDA_ARCHITECTURES = [75, 80, 86, 89, 90, 100, 120]

/**
 * The recipe of the CUDA backend for some architectures instead of this machine's GPU.
 * @param {Recipe} recipe
 * @param {readonly number[]} architectures
 * @returns {Recipe}
 */
export function forArchitectures(recipe, architectures) {
  const flags = architectures.map((number) => `-gencode=arch=compute_${number},code=sm_${number}`)
  return {
    ...recipe,
    level: 'package',
    flags: recipe.flags.flatMap((flag) => (flag === '-arch=native' ? flags : flag)),
  }
}

/** Names the package's build, whose manifest lists its architectures. */
export const PACKAGED_CUDA = forArchitectures(CUDA, [])

/**
 * @returns {Backend}
 * @throws SetupError for an unknown value of LOOKOUT_BACKEND.
 */
export function wantedBackend(env = process.env) {
  const wanted = env.LOOKOUT_BACKEND || 'auto'
  if (BACKENDS.includes(wanted)) return wanted
  throw new SetupError(`LOOKOUT_BACKEND: expected ${BACKENDS.slice(0, -1).join(', ')} or ${BACKENDS.at(-1)}`)
}

/**
 * Folder of a backend's library in the cache. It may not exist.
 * @param {GpuBackend} backend
 * @param {string} platform
 */
export function backendDirectory({ name, integrity, file }, platform, env = process.env) {
  const hash = createHash('sha256')
    .update(integrity + file)
    .digest('hex')
    .slice(0, 12)
  return join(cacheDirectory(env), 'native', `${name}-${LLAMA_RELEASE}-${platform}-${hash}`)
}

/**
 * The same for the library that is compiled for this machine's GPU; null if a backend is never compiled.
 * @type {FindBackend}
 */
export function compiledDirectory({ name }, platform, env = process.env) {
  return name === CUDA.name ? libraryDirectory(CUDA, platform, env) : null
}

/**
 * The same for the library that set-up has copied from Lookout's package of the backend; null if there is none.
 * @type {FindBackend}
 */
export function packagedDirectory({ name }, platform, env = process.env) {
  return name === CUDA.name ? libraryDirectory(PACKAGED_CUDA, platform, env) : null
}

/**
 * Path of a backend's library: the compiled one, or else the one of Lookout's package, or else the downloaded one. Null
 * when it is missing or truncated.
 * @type {FindBackend}
 */
export function findBackend(backend, platform, env = process.env) {
  return findOwn(backend, platform, env) ?? findIn(backendDirectory(backend, platform, env), backend)
}

/**
 * The same without the downloaded one.
 * @type {FindBackend}
 */
export function findOwn(backend, platform, env = process.env) {
  for (const directoryOf of [compiledDirectory, packagedDirectory]) {
    const directory = directoryOf(backend, platform, env)
    const path = directory === null ? null : findIn(directory, backend)
    if (path !== null) return path
  }
  return null
}

/**
 * Path of the library in a backend's folder; null when it is missing or cut off. Reads a size alone: CUDA's library has
 * hundreds of megabytes, too many to be read twice at every start.
 * @param {string} directory
 * @param {Pick<GpuBackend, 'file'>} backend
 */
export function findIn(directory, { file }) {
  const path = join(directory, basename(file))
  try {
    const manifest = JSON.parse(readFileSync(join(directory, MANIFEST_FILE), 'utf8'))
    return manifest.bytes === statSync(path).size ? path : null
  } catch {
    return null
  }
}

/**
 * Fetches a backend's library and puts it into the cache.
 * @param {GpuBackend} backend
 * @param {{ platform: string, workspace: string, projectRoot: string, env?: NodeJS.ProcessEnv }} to `workspace` is an
 * empty folder on the cache's file system.
 * @returns the path of the library.
 * @throws SetupError
 */
export async function fetchBackend(backend, { platform, workspace, projectRoot, env = process.env }) {
  await needPrograms('tar')
  const { name, integrity, file } = backend
  const tarball = await fetchTarball(
    { name: backend.package, integrity, contains: `the ${name} backend` },
    workspace,
    projectRoot,
  )
  const product = join(workspace, name)
  await mkdir(product)
  try {
    await run('tar', ['-xzf', tarball, '-C', product, '--strip-components', String(file.split('/').length - 1), file])
  } catch (error) {
    throw new SetupError(`The tarball of ${backend.package} does not contain ${file}. ${error.message}`)
  }
  return publish(backend, product, backendDirectory(backend, platform, env), { package: backend.package, integrity })
}

/**
 * Moves a folder with a backend's library to its place in the cache, replacing an existing one.
 * @param {GpuBackend} backend
 * @param {string} product
 * @param {string} target
 * @param {object} about description of the library for the manifest.
 * @returns the path of the library.
 */
export async function publish(backend, product, target, about = {}) {
  const library = basename(backend.file)
  const { size: bytes } = await stat(join(product, library))
  const manifest = { ...about, bytes, sha256: sha256(join(product, library)) }
  await writeFile(join(product, MANIFEST_FILE), `${JSON.stringify(manifest)}\n`)
  await mkdir(dirname(target), { recursive: true })
  await rm(target, { recursive: true, force: true })
  await rename(product, target).catch((error) => {
    // Another set-up may have published it in the meantime.
    if (findIn(target, backend) === null) throw error
  })
  return join(target, library)
}

/** The backend that this machine's hardware suggests; null where none is seen. Looks at two paths and loads nothing. */
export function suggestedBackend(platform) {
  const offered = GPU_BACKENDS[platform] ?? []
  const has = (name) => offered.some((backend) => backend.name === name)
  if (has('cuda') && existsSync('/proc/driver/nvidia/version')) return 'cuda'
  if (has('vulkan') && existsSync('/dev/dri/renderD128')) return 'vulkan'
  return null
}
