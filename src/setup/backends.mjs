// GPU backends of ggml: which there are, where their libraries are kept, and fetching them. They are too large to be
// dependencies of everybody. Plain JavaScript: set-up may run on an older Node.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { cacheDirectory, LLAMA_RELEASE, MANIFEST_FILE, SetupError } from './native-library.mjs'
import { run } from './run.mjs'
import { fetchTarball, needPrograms } from './tarball.mjs'

/** Values of LOOKOUT_BACKEND. */
export const BACKENDS = ['auto', 'cpu', 'vulkan', 'cuda', 'metal']

/**
 * Backends that set-up can fetch, by platform; the preferred one first. `file` is the library within the package's
 * tarball. Metal is part of the package that macOS has anyway.
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

/** @throws SetupError for an unknown value of LOOKOUT_BACKEND. */
export function wantedBackend(env = process.env) {
  const wanted = env.LOOKOUT_BACKEND || 'auto'
  if (BACKENDS.includes(wanted)) return wanted
  throw new SetupError(`LOOKOUT_BACKEND: expected ${BACKENDS.slice(0, -1).join(', ')} or ${BACKENDS.at(-1)}`)
}

/** Folder of a backend's library in the cache. It may not exist. */
export function backendDirectory({ name, integrity, file }, platform, env = process.env) {
  const hash = createHash('sha256')
    .update(integrity + file)
    .digest('hex')
    .slice(0, 12)
  return join(cacheDirectory(env), 'native', `${name}-${LLAMA_RELEASE}-${platform}-${hash}`)
}

/**
 * Path of a backend's library; null when it is missing or cut off. The tarball was checked when it was fetched; CUDA's
 * library has hundreds of megabytes, too many to be read twice at every start.
 */
export function findBackend(backend, platform, env = process.env) {
  const directory = backendDirectory(backend, platform, env)
  const path = join(directory, basename(backend.file))
  try {
    const manifest = JSON.parse(readFileSync(join(directory, MANIFEST_FILE), 'utf8'))
    return manifest.bytes === statSync(path).size ? path : null
  } catch {
    return null
  }
}

/**
 * Fetches a backend's library and puts it into the cache.
 * @param workspace an empty folder on the cache's file system.
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
  const { size: bytes } = await stat(join(product, basename(file)))
  await writeFile(join(product, MANIFEST_FILE), `${JSON.stringify({ package: backend.package, integrity, bytes })}\n`)
  const target = backendDirectory(backend, platform, env)
  await mkdir(dirname(target), { recursive: true })
  if (findBackend(backend, platform, env) === null) {
    await rm(target, { recursive: true, force: true })
    await rename(product, target).catch((error) => {
      // Another set-up may have put it there meanwhile.
      if (findBackend(backend, platform, env) === null) throw error
    })
  }
  return join(target, basename(file))
}

/** The backend that this machine's hardware suggests; null where none is seen. Looks at two paths and loads nothing. */
export function suggestedBackend(platform) {
  const offered = GPU_BACKENDS[platform] ?? []
  const has = (name) => offered.some((backend) => backend.name === name)
  if (has('cuda') && existsSync('/proc/driver/nvidia/version')) return 'cuda'
  if (has('vulkan') && existsSync('/dev/dri/renderD128')) return 'vulkan'
  return null
}
