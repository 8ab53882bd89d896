import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { BACKENDS } from '../src/config/backend.ts'
import { CUDA, compiledDirectory, fetchBackend, findBackend, publish, wantedBackend } from '../src/setup/backends.mjs'
import { compileLibrary } from '../src/setup/compile.mjs'
import { findNvcc } from '../src/setup/cuda.mjs'
import { PACKAGE_RELEASE, SetupError } from '../src/setup/native-library.mjs'
import { locatePrebuilt } from '../src/setup/prebuilt.mjs'
import type { GpuBackend } from '../src/setup/types.ts'

const run = promisify(execFile)
const PLATFORM = 'linux-x64'
const NAME = '@node-llama-cpp/linux-x64-vulkan'
const FILE = 'package/bins/linux-x64-vulkan/libggml-vulkan.so'
const LIBRARY = 'machine code'
const PROJECT_ROOT = process.cwd()

test('set-up and the settings know the same backends', () => {
  for (const backend of BACKENDS) expect(wantedBackend({ LOOKOUT_BACKEND: backend })).toBe(backend)
  expect(() => wantedBackend({ LOOKOUT_BACKEND: 'none' })).toThrow(BACKENDS.slice(0, -1).join(', '))
})

/** Fetching a GPU backend, from a registry of its own. */
describe('fetching a GPU backend', () => {
  let folder: string
  let cache: string
  let registry: Server | null
  let tarball: Buffer
  let backend: GpuBackend
  /** What the registry names as the tarball's address; null: itself. */
  let tarballAt: string | null

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lookout backend '))
    cache = join(folder, 'cache')
    await mkdir(join(folder, FILE, '..'), { recursive: true })
    await writeFile(join(folder, FILE), LIBRARY)
    const manifest = { name: NAME, version: PACKAGE_RELEASE }
    await writeFile(join(folder, 'package', 'package.json'), JSON.stringify(manifest))
    await run('tar', ['-czf', join(folder, 'it.tgz'), '-C', folder, 'package'])
    tarball = await readFile(join(folder, 'it.tgz'))
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
    backend = { name: 'vulkan', package: NAME, integrity, file: FILE }
    tarballAt = null
    registry = createServer((request, response) => {
      if (request.url!.endsWith('.tgz')) return response.end(tarball)
      const { port } = registry!.address() as AddressInfo
      const dist = { tarball: tarballAt ?? `http://127.0.0.1:${port}/it.tgz`, integrity }
      const version = { ...manifest, dist }
      response.end(
        JSON.stringify({
          name: NAME,
          'dist-tags': { latest: PACKAGE_RELEASE },
          versions: { [PACKAGE_RELEASE]: version },
        }),
      )
    })
    await new Promise<void>((resolve) => registry!.listen(0, '127.0.0.1', resolve))
    const { port } = registry.address() as AddressInfo
    vi.stubEnv('npm_config_registry', `http://127.0.0.1:${port}/`)
    vi.stubEnv('npm_config_cache', join(folder, 'npm'))
    vi.stubEnv('npm_config_fetch_retries', '0')
    // From time to time, npm asks the registry for a newer npm.
    vi.stubEnv('npm_config_update_notifier', 'false')
    vi.stubEnv('LOOKOUT_CACHE_DIR', cache)
  })

  afterEach(async () => {
    registry?.close()
    await rm(folder, { recursive: true, force: true })
  })

  const fetchIt = async (wanted = backend) => {
    const workspace = await mkdtemp(join(folder, 'workspace-'))
    return fetchBackend(wanted, { platform: PLATFORM, workspace, projectRoot: PROJECT_ROOT })
  }

  test('puts the library into the cache, replaces one that was cut off, and needs no network for what npm has', async () => {
    expect(findBackend(backend, PLATFORM)).toBeNull()
    const path = await fetchIt()
    expect(await readFile(path, 'utf8')).toBe(LIBRARY)
    expect(findBackend(backend, PLATFORM)).toBe(path)

    await truncate(path, 3)
    expect(findBackend(backend, PLATFORM)).toBeNull()
    expect(await readFile(await fetchIt(), 'utf8')).toBe(LIBRARY)

    await rm(join(path, '..'), { recursive: true })
    expect(findBackend(backend, PLATFORM)).toBeNull()
    await new Promise((resolve) => registry!.close(resolve))
    expect(await readFile(await fetchIt(), 'utf8')).toBe(LIBRARY)
  })

  test('gives way to the library that is compiled for the GPU', async () => {
    await fetchIt()
    expect(compiledDirectory(backend, PLATFORM)).toBeNull()
    const cuda: GpuBackend = { ...backend, name: 'cuda' }
    const fetched = await fetchIt(cuda)
    expect(findBackend(cuda, PLATFORM)).toBe(fetched)
    const product = join(folder, 'product')
    await mkdir(product)
    await writeFile(join(product, basename(FILE)), 'code for this GPU')
    const compiled = await publish(cuda, product, compiledDirectory(cuda, PLATFORM)!)
    expect(compiled).not.toBe(fetched)
    expect(findBackend(cuda, PLATFORM)).toBe(compiled)
  })

  test('rejects another file than the expected one, and keeps nothing of it', async () => {
    const other = { ...backend, integrity: 'sha512-AAAA' }
    await expect(fetchIt(other)).rejects.toThrow(/is not the expected file \(sha512-\S+ instead of sha512-AAAA\)/)
    expect(findBackend(other, PLATFORM)).toBeNull()
  })

  // The names end in .invalid, which no DNS server knows: only the proxy can answer.
  test.each(['HTTP_PROXY', 'npm_config_proxy'])('goes through a proxy: %s', async (setting) => {
    const { port } = registry!.address() as AddressInfo
    const asked: string[] = []
    registry!.prependListener('request', ({ url }) => asked.push(url!))
    vi.stubEnv('npm_config_registry', 'http://registry.invalid/')
    vi.stubEnv(setting, `http://127.0.0.1:${port}/`)
    tarballAt = 'http://registry.invalid/it.tgz'
    expect(await readFile(await fetchIt(), 'utf8')).toBe(LIBRARY)
    expect(asked).toEqual([expect.stringMatching(/^http:\/\/registry\.invalid\/@node-llama-cpp/), tarballAt])
  })

  test('does not use a proxy for what it is not meant for', async () => {
    vi.stubEnv('HTTP_PROXY', 'http://127.0.0.1:1/')
    await expect(fetchIt()).rejects.toThrow(/npm cannot fetch/)
    vi.stubEnv('NO_PROXY', '127.0.0.1')
    expect(await readFile(await fetchIt(), 'utf8')).toBe(LIBRARY)
  })

  test('names a file that is not in the tarball', async () => {
    await expect(fetchIt({ ...backend, file: 'package/bins/other.so' })).rejects.toThrow(
      /does not contain package\/bins\/other\.so/,
    )
  })

  // A registry that is this small has not the file whose integrity is pinned.
  test.runIf(process.platform === 'linux' && process.arch === 'x64').each(['wrong file', 'no registry'])(
    'set-up says that models run on the CPU, and does not fail: %s',
    async (trouble) => {
      if (trouble === 'no registry') registry!.close()
      // The libraries that are compiled already, without the backends.
      const own = (await import('../src/setup/native-library.mjs')).cacheDirectory({})
      await mkdir(cache)
      await run('cp', ['-r', join(own, 'native'), cache])
      // Somebody may be setting up at the same time.
      for (const name of await readdir(join(cache, 'native')))
        if (/^(vulkan|cuda|building)-/.test(name)) await rm(join(cache, 'native', name), { recursive: true })
      const { stdout } = await run(process.execPath, ['scripts/setup.mjs'], {
        env: { ...process.env, LOOKOUT_BACKEND: 'vulkan' },
      })
      expect(stdout).toMatch(/cannot add the vulkan backend; models run on the CPU/)
      expect(stdout).toMatch(trouble === 'wrong file' ? /is not the expected file/ : /npm cannot fetch .*vulkan/)
      expect((await readdir(join(cache, 'native'))).filter((name) => /^(vulkan|building)-/.test(name))).toEqual([])
    },
  )
})

test('an unknown backend is refused', () => {
  expect(wantedBackend({})).toBe('auto')
  expect(wantedBackend({ LOOKOUT_BACKEND: 'vulkan' })).toBe('vulkan')
  expect(() => wantedBackend({ LOOKOUT_BACKEND: 'opencl' })).toThrow(SetupError)
})

/** All of the backend takes twenty minutes on two cores: here is one kernel, for a GPU that need not be here. */
test('nvcc compiles by the recipe of the CUDA backend', async ({ skip }) => {
  const nvcc = await findNvcc()
  if (nvcc === null) return skip('There is no nvcc.')
  const source = await mkdtemp(join(tmpdir(), 'lookout cuda '))
  try {
    await writeFile(
      join(source, 'one.cu'),
      '__global__ void one(float * x) { *x = 1; }\nextern "C" int two() { return 2; }\n',
    )
    const output = join(source, 'libone.so')
    const recipe = {
      ...CUDA,
      root: '.',
      includes: [],
      ...{ own: [], fixes: [], sources: ['o*.cu'] },
      flags: CUDA.flags.map((flag) => (flag === '-arch=native' ? '-arch=sm_90' : flag)),
      needs: [],
      libraries: ['-cudart', 'shared'],
    }
    const progress = vi.fn()
    await compileLibrary(recipe, {
      ...{ compiler: [nvcc], source, objects: join(source, 'objects'), output, prebuilt: locatePrebuilt(), progress },
      linkFlags: ['-Xlinker', '-rpath=/usr/lib'],
    })
    expect(progress.mock.calls).toEqual([[1, 1]])
    const { stdout } = await run('nm', ['-D', output])
    expect(stdout).toMatch(/ T two\n/)
  } finally {
    await rm(source, { recursive: true, force: true })
  }
})
