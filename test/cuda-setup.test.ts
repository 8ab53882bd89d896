import { createHash } from 'node:crypto'
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { crc32, deflateRawSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { checkMachineCode, machineCode, makeDriverStub } from '../scripts/cuda-package.ts'
import {
  CUDA,
  CUDA_ARCHITECTURES,
  compiledDirectory,
  findBackend,
  forArchitectures,
  GPU_BACKENDS,
  PACKAGED_CUDA,
  publish,
} from '../src/setup/backends.mjs'
import { findCompiler } from '../src/setup/compile.mjs'
import { cudaPackage } from '../src/setup/cuda.mjs'
import { chooseCuda, findGpus } from '../src/setup/cuda-choice.mjs'
import { addRuntime, lacksRuntime } from '../src/setup/cuda-runtime.mjs'
import { buildName, CPU, findCompiled, sha256 } from '../src/setup/native-library.mjs'
import { locatePrebuilt } from '../src/setup/prebuilt.mjs'
import { run } from '../src/setup/run.mjs'
import type { Gpu, Wheel } from '../src/setup/types.ts'
import { fetchWheel, unpackWheel } from '../src/setup/wheels.mjs'

const { platform } = locatePrebuilt()
const backend = (GPU_BACKENDS[platform] ?? []).find(({ name }) => name === 'cuda')
const kernels = findCompiled(CPU, platform)

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout cuda '))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

describe('the choice of a CUDA backend', () => {
  const gpu = (capability: number, driver = '580.65'): Gpu => ({ name: 'GPU', capability, driver })
  const packaged = { name: 'the package', problem: null, architectures: CUDA_ARCHITECTURES }
  const facts = { cached: null, packaged, gpus: [gpu(90)], nvcc: null }

  test.each([
    ['the package', {}, ['packaged', 'fetched']],
    ['what is there already', { cached: '/it.so', nvcc: '/nvcc' }, ['cached', 'packaged', 'compiled', 'fetched']],
    ['a toolkit without the package', { packaged: null, nvcc: '/nvcc' }, ['compiled', 'fetched']],
    ['neither', { packaged: null }, ['fetched']],
    ['no GPU, as where an image is built', { gpus: [] }, ['packaged', 'fetched']],
    ['two kinds of GPU', { gpus: [gpu(75), gpu(120)] }, ['packaged', 'fetched']],
    ['a GPU with the code of an earlier one', { gpus: [gpu(103), gpu(121), gpu(87)] }, ['packaged', 'fetched']],
  ])('%s', (_, some, ways) => {
    expect(chooseCuda({ ...facts, ...some })).toEqual({ ways, reason: null })
  })

  test.each([
    ['a damaged package', { packaged: { ...packaged, problem: 'it is damaged' } }, 'it is damaged'],
    ['an old driver', { gpus: [gpu(90, '570.86.15')] }, 'it needs a driver of version 580 or later'],
    ['an old GPU beside a newer one', { gpus: [gpu(90), gpu(61)] }, 'and GPU has 6.1'],
    ['a GPU of a coming generation', { gpus: [gpu(130)] }, '9.0, 10.0, 12.0, and GPU has 13.0'],
    [
      'a package for other GPUs',
      { packaged: { ...packaged, architectures: [86, 89] }, gpus: [gpu(80)] },
      '8.6, 8.9, and',
    ],
  ])('not the package: %s', (_, some, text) => {
    const { ways, reason } = chooseCuda({ ...facts, ...some, nvcc: '/nvcc' })
    expect(ways).toEqual(['compiled', 'fetched'])
    expect(reason).toMatch(/^not using the package: /)
    expect(reason).toContain(text)
  })

  test("the driver's program says which GPUs there are", async () => {
    const program = await script(
      'nvidia-smi',
      'printf "9.0, 580.65.06, NVIDIA H100\\n12.0, 580.65.06, NVIDIA RTX, PRO\\n"',
    )
    expect(await findGpus(program)).toEqual([
      { name: 'NVIDIA H100', capability: 90, driver: '580.65.06' },
      { name: 'NVIDIA RTX, PRO', capability: 120, driver: '580.65.06' },
    ])
    expect(await findGpus(await script('fails', 'echo "No devices were found"; exit 6'))).toEqual([])
    expect(await findGpus(join(folder, 'missing'))).toEqual([])
  })

  test('a driver that hangs is named, and its program is killed', async () => {
    // The second process keeps the pipes of the first open.
    const program = await script('nvidia-smi', 'while :; do sleep 1; done')
    await expect(findGpus(program, 50)).rejects.toThrow(
      /The GPU's driver hangs: .*nvidia-smi did not answer within 0\.05 s\. Restart the machine/,
    )
    await expect.poll(() => run('ps', ['-A', '-o', 'args'])).not.toContain(program)
  })
})

async function script(name: string, text: string): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, `#!/bin/sh\n${text}\n`)
  await chmod(path, 0o755)
  return path
}

/** The real set-up beside a package whose library is ggml's backend for CPUs: that computes what it should. */
describe.runIf(backend !== undefined && kernels !== null)('set-up with the package of the CUDA backend', () => {
  const GPU_90 = 'echo "9.0, 580.65.06, NVIDIA H100"'
  let library: string
  let cache: string
  beforeEach(async () => {
    cache = join(folder, 'cache')
    await cp(dirname(dirname(kernels!)), join(cache, 'native'), {
      recursive: true,
      filter: (path) => !/^(cuda|vulkan|building)-/.test(basename(path)),
    })
    const root = join(folder, 'node_modules', cudaPackage(platform))
    const directory = join(root, 'native', buildName(PACKAGED_CUDA, platform))
    await mkdir(directory, { recursive: true })
    await writeFile(join(root, 'package.json'), '{}')
    library = join(directory, 'libggml-cuda.so')
    await cp(kernels!, library)
    const manifest = { architectures: [80, 90], bytes: (await stat(library)).size, sha256: sha256(library) }
    await writeFile(join(directory, 'manifest.json'), JSON.stringify(manifest))
  })

  async function setUp(gpus: string, wanted = 'cuda'): Promise<string> {
    await script('nvidia-smi', gpus)
    return run(process.execPath, ['scripts/setup.mjs'], {
      env: {
        ...process.env,
        PATH: `${folder}:${process.env.PATH}`,
        NODE_PATH: join(folder, 'node_modules'),
        LOOKOUT_CACHE_DIR: cache,
        LOOKOUT_BACKEND: wanted,
        CUDACXX: '/no/such/nvcc',
        npm_lifecycle_event: 'postinstall',
        // No registry, and nothing in npm's cache.
        npm_config_registry: 'http://127.0.0.1:1/',
        npm_config_cache: join(folder, 'npm'),
        npm_config_fetch_retries: '0',
      },
    })
  }
  const found = () => findBackend(backend!, platform, { LOOKOUT_CACHE_DIR: cache })

  test('uses it, says so, and finds it again', async () => {
    const output = await setUp(GPU_90)
    expect(output).toMatch(
      /the cuda backend is ready after [\d.]+ s: @lookout\/native-linux-x64-cuda \(machine code for 8\.0, 9\.0\), on NVIDIA H100 \(compute capability 9\.0, driver 580\.65\.06\)\n/,
    )
    expect(await readFile(found()!)).toEqual(await readFile(kernels!))
    expect(await setUp(GPU_90)).toContain(`: the one in ${dirname(found()!)}, on NVIDIA H100`)
  })

  test('copies it where there is no GPU to try it', async () => {
    expect(await setUp('exit 9')).toMatch(/machine code for 8\.0, 9\.0\), (not tried: there is no GPU|on the GPU)\n/)
    expect(found()).not.toBeNull()
  })

  test('does not use a damaged one', async () => {
    await writeFile(library, Buffer.alloc((await stat(library)).size))
    const output = await setUp(GPU_90)
    expect(output).toContain('not using @lookout/native-linux-x64-cuda: it is damaged')
    expect(output).toMatch(/models run on the CPU/)
    expect(found()).toBeNull()
  })

  test('does not use one that the check refuses', async () => {
    await rm(library)
    await writeFile(library, 'no library')
    const manifest = join(dirname(library), 'manifest.json')
    await writeFile(manifest, JSON.stringify({ architectures: [90], bytes: 10, sha256: sha256(library) }))
    expect(await setUp(GPU_90)).toMatch(/not using @lookout\/native-linux-x64-cuda \(machine code for 9\.0\): .+/)
    expect(found()).toBeNull()
  })

  /** Ends the process that loads it, with the message that its environment has. */
  const SAYS = `#include <cstdio>
#include <cstdlib>
__attribute__((constructor)) static void f() {
  fputs(getenv("LOOKOUT_TEST_SAYS"), stderr);
  fputc('\\n', stderr);
  __builtin_trap();
}
`
  let saying: string
  beforeAll(async () => {
    saying = await mkdtemp(join(tmpdir(), 'lookout says '))
    await writeFile(join(saying, 'says.cpp'), SAYS)
    const [command, ...args] = await findCompiler()
    await run(command!, [...args, '-shared', '-fPIC', join(saying, 'says.cpp'), '-o', join(saying, 'libggml-cuda.so')])
  })
  afterAll(() => rm(saying, { recursive: true, force: true }))

  /** Puts that library into the cache, as if set-up had compiled it. */
  async function compiledThatSays(message: string): Promise<string> {
    vi.stubEnv('LOOKOUT_TEST_SAYS', message)
    const product = join(folder, 'product')
    await mkdir(product)
    await cp(join(saying, 'libggml-cuda.so'), join(product, 'libggml-cuda.so'))
    return publish(backend!, product, compiledDirectory(backend!, platform, { LOOKOUT_CACHE_DIR: cache })!)
  }

  test.each([
    'CUDA error: all CUDA-capable devices are busy or unavailable',
    'CUDA error: out of memory',
    'CUDA error: CUDA driver version is insufficient for CUDA runtime version',
    'a crash',
  ])('keeps a compiled one that is refused for a cause that may pass: %s', async (message) => {
    const path = await compiledThatSays(message)
    const output = await setUp(GPU_90)
    const cause = message === 'a crash' ? 'they crash (SIGILL)' : message
    expect(output).toContain(`not using the one in ${dirname(path)}: ${cause}\n`)
    expect(output).toMatch(/it is kept, for its cause may pass\. Check .* try again\. To have another one made, delete/)
    expect(found()).toBe(path)
  })

  test.each([
    'CUDA error: no kernel image is available for execution on the device',
    'common.cuh:1: ggml was not compiled with any CUDA arch <= 800',
  ])('replaces a compiled one that was made for another GPU: %s', async (message) => {
    const path = await compiledThatSays(message)
    const output = await setUp(GPU_90)
    expect(output).toContain(`not using the one in ${dirname(path)}: `)
    expect(output).toContain('the cuda backend is ready')
    expect(await readFile(found()!)).toEqual(await readFile(kernels!))
  })

  test('replaces a compiled one that is damaged, for any refusal', async () => {
    const path = await compiledThatSays('CUDA error: out of memory')
    const bytes = await readFile(path)
    bytes[bytes.length - 1]! ^= 1
    await writeFile(path, bytes)
    const output = await setUp(GPU_90)
    expect(output).toContain(`not using the one in ${dirname(path)}: it is damaged (CUDA error: out of memory)`)
    expect(output).toContain('the cuda backend is ready')
    expect(found()).not.toBe(path)
  })
})

/** A compiler that writes what it is asked for, and ends the program that runs it when it comes to c.cu first. */
const COMPILER = `case "$*" in *--version*) echo 1.0; exit;; esac
file=; while [ $# -gt 0 ]; do case "$1" in -c) file=$2; shift;; -o) output=$2; shift;; esac; shift; done
[ -z "$file" ] && { echo linked > "$output"; exit; }
echo "$(basename "$file")" >> "$LOG"
case "$file" in *c.cu) [ -e "$LOG.once" ] || { touch "$LOG.once"; echo half > "$output"; kill -9 $PPID; sleep 60; };; esac
cp "$file" "$output"`

test('a compile that is killed goes on where it stopped', async () => {
  const compiler = await script('compiler', COMPILER)
  const log = join(folder, 'log')
  const source = join(folder, 'source')
  await mkdir(source)
  for (const name of ['a', 'b', 'c', 'd']) await writeFile(join(source, `${name}.cu`), `// ${name}\n`)
  const recipe = { ...forArchitectures(CUDA, [90]), root: '.', includes: [], own: [], fixes: [], sources: ['*.cu'] }
  const objects = join(folder, 'objects')
  const compile = (some: object = {}) => {
    const to = { compiler: [compiler], source, objects, output: join(folder, 'it.so'), prebuilt: { platform } }
    const program = `import { compileLibrary } from './src/setup/compile.mjs'
      await compileLibrary(${JSON.stringify({ ...recipe, needs: [], ...some })}, { ...${JSON.stringify(to)}, progress() {} })`
    return run(process.execPath, ['--input-type=module', '--eval', program], { env: { ...process.env, LOG: log } })
  }
  const compiled = async () => (await readFile(log, 'utf8')).trim().split('\n').sort()

  await expect(compile()).rejects.toThrow('SIGKILL')
  const kept = (await readdir(objects)).filter((name) => name.includes('.cu-')).map((name) => name.slice(0, 4))
  expect(kept).not.toEqual([])
  expect(kept).not.toContain('c.cu')
  await rm(log)
  await compile()
  expect(await compiled()).toEqual(['a.cu', 'b.cu', 'c.cu', 'd.cu'].filter((name) => !kept.includes(name)))
  expect(await readFile(join(folder, 'it.so'), 'utf8')).toBe('linked\n')

  await rm(log)
  await writeFile(join(source, 'b.cu'), '// another b\n')
  await compile()
  expect(await compiled(), 'one file has changed').toEqual(['b.cu'])
  await rm(log)
  await compile({ flags: forArchitectures(CUDA, [80]).flags })
  expect(await compiled(), 'for another architecture').toEqual(['a.cu', 'b.cu', 'c.cu', 'd.cu'])
})

describe('for the CUDA package', () => {
  test.runIf(process.platform === 'linux')("a library stands in for the driver's", async () => {
    const header = join(folder, 'cuda.h')
    const stub = join(folder, 'libcuda.so')
    await writeFile(
      header,
      '#define cuMemAlloc  cuMemAlloc_v2\n#define CUDA_VERSION 13000\nCUresult CUDAAPI cuInit(unsigned int Flags);\nCUresult CUDAAPI cuMemCreate (int x);\n',
    )
    await makeDriverStub(header, stub)
    const symbols = await run('nm', ['-D', '--defined-only', stub])
    for (const name of ['cuInit', 'cuMemCreate', 'cuMemAlloc_v2']) expect(symbols).toMatch(new RegExp(` T ${name}\n`))
    expect(await readFile(stub, 'latin1')).toContain('libcuda.so.1')
  })

  test('machine code is counted, and PTX is not', () => {
    const entry = (kind: number, architecture: number, size: number) => {
      const bytes = Buffer.alloc(64 + size)
      bytes.writeUInt16LE(kind, 0)
      bytes.writeUInt32LE(64, 4)
      bytes.writeBigUInt64LE(BigInt(size), 8)
      bytes.writeUInt32LE(architecture, 28)
      return bytes
    }
    const container = (...entries: Buffer[]) => {
      const head = Buffer.from('50ed55ba010010000000000000000000', 'hex')
      head.writeBigUInt64LE(BigInt(Buffer.concat(entries).length), 8)
      return Buffer.concat([head, ...entries])
    }
    const library = Buffer.concat([
      Buffer.from('code'),
      container(entry(2, 80, 8), entry(2, 90, 24), entry(1, 90, 16)),
      Buffer.alloc(9),
      container(entry(2, 80, 8), entry(2, 90, 0)),
    ])
    expect(machineCode(library)).toEqual([
      [80, 90],
      [80, 90],
    ])
    expect(() => checkMachineCode(library, [90, 80])).not.toThrow()
    expect(() => checkMachineCode(library, [90])).toThrow('machine code for 80, 90, not for 90')
    expect(() => checkMachineCode(Buffer.alloc(99), [90])).toThrow('no machine code')
  })
})

/** A zip file of texts. The mode of `program` says that it is one. */
function zip(files: Readonly<Record<string, string>>): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [name, text] of Object.entries(files)) {
    const isPacked = text.length > 4
    const data = isPacked ? deflateRawSync(text) : Buffer.from(text)
    const common = Buffer.alloc(26)
    common.writeUInt16LE(isPacked ? 8 : 0, 4)
    common.writeUInt32LE(crc32(text), 10)
    common.writeUInt32LE(data.length, 14)
    common.writeUInt32LE(Buffer.byteLength(text), 18)
    common.writeUInt16LE(Buffer.byteLength(name), 22)
    const local = Buffer.concat([Buffer.from('504b0304', 'hex'), common, Buffer.from(name), data])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE(((name === 'program' ? 0o100755 : 0o100644) << 16) >>> 0, 6)
    rest.writeUInt32LE(offset, 10)
    directory.push(Buffer.from('504b01021400', 'hex'), common, rest, Buffer.from(name))
    parts.push(local)
    offset += local.length
  }
  const entries = Buffer.concat(directory)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(Object.keys(files).length, 8)
  end.writeUInt16LE(Object.keys(files).length, 10)
  end.writeUInt32LE(entries.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...parts, entries, end])
}

describe('a wheel', () => {
  const unpack = async (files: Readonly<Record<string, string>>, change = (bytes: Buffer) => bytes) => {
    const path = join(folder, 'it.whl')
    await writeFile(path, change(zip(files)))
    await unpackWheel(path, join(folder, 'into'))
  }

  test('is unpacked, with folders and programs', async () => {
    await unpack({ 'a/b.txt': 'packed text '.repeat(99), program: 'four', 'empty/': '', none: '' })
    expect(await readFile(join(folder, 'into/a/b.txt'), 'utf8')).toBe('packed text '.repeat(99))
    expect(await readFile(join(folder, 'into/none'), 'utf8')).toBe('')
    expect((await stat(join(folder, 'into/program'))).mode & 0o111).toBe(0o111)
    expect((await stat(join(folder, 'into/a/b.txt'))).mode & 0o111).toBe(0)
  })

  test.each(['../out', 'a/../../out', '/out', 'a\\..\\out', 'c:out', 'a//b'])(
    'cannot write outside its folder: %s',
    async (name) => {
      await expect(unpack({ fine: 'text', [name]: 'out' })).rejects.toThrow(`leads out of its folder: ${name}`)
      expect((await readdir(folder)).sort()).toEqual(['into', 'it.whl'])
    },
  )

  test('is refused when it is damaged', async () => {
    const files = { a: 'text that is packed' }
    await expect(unpack(files, (bytes) => bytes.subarray(0, 40))).rejects.toThrow('is not a zip file')
    await expect(unpack(files, (bytes) => bytes.fill(0, 0, 4))).rejects.toThrow('is damaged at a')
    await expect(unpack(files, (bytes) => bytes.fill(255, 33, 40))).rejects.toThrow()
  })

  const FILE = 'some_wheel-1.0-py3-none-any.whl'
  const contents = zip({
    'nvidia/cu13/lib/libcudart.so.13': 'runtime',
    'nvidia/cu13/lib/libcublas.so.13': 'products',
    'nvidia/cu13/lib/libcublasLt.so.13': 'light',
    'nvidia/cu13/include/cublas.h': 'header',
    'some-1.0.dist-info/licenses/License.txt': 'terms',
  })
  const wheel: Wheel = {
    ...{ name: 'some-wheel', version: '1.0', file: FILE },
    sha256: createHash('sha256').update(contents).digest('hex'),
  }
  let asked: string[]
  beforeEach(() => {
    asked = []
  })
  const index =
    (link = `../../files/${FILE}#sha256=00`, body = contents): typeof fetch =>
    async (address) => {
      asked.push(String(address))
      if (String(address).endsWith('.whl')) return new Response(new Uint8Array(body))
      return String(address).endsWith('/some-wheel/')
        ? new Response(`<a href="other.whl">other</a><br/>\n<a data-requires="&gt;3" href="${link}">it</a>`)
        : new Response('none', { status: 404 })
    }
  const mirror = { PIP_INDEX_URL: 'https://mirror.invalid/simple/' }

  test('comes from the index that PIP_INDEX_URL names', async () => {
    const seen: number[] = []
    const path = await fetchWheel(wheel, folder, { env: mirror, get: index(), progress: (done) => seen.push(done) })
    expect(await readFile(path)).toEqual(contents)
    expect(asked).toEqual(['https://mirror.invalid/simple/some-wheel/', `https://mirror.invalid/files/${FILE}`])
    expect(seen.at(-1)).toBe(contents.length)
    await fetchWheel(wheel, folder, { env: {}, get: index() })
    expect(asked[2]).toMatch(/^https:\/\/pypi\.org\/simple\//)
  })

  test("sends the mirror's password in a header, and no error has it", async () => {
    const env = { PIP_INDEX_URL: 'https://user:p%40ss@mirror.invalid/simple' }
    const sent: [string, unknown][] = []
    const get: typeof fetch = async (address, init) => {
      sent.push([new URL(String(address)).host, new Headers(init?.headers).get('authorization')])
      return index(`https://files.invalid/${FILE}`)(address)
    }
    await fetchWheel(wheel, folder, { env, get })
    const header = `Basic ${Buffer.from('user:p@ss').toString('base64')}`
    expect(sent).toEqual([
      ['mirror.invalid', header],
      ['files.invalid', null],
    ])
    await rm(join(folder, FILE))
    const refusing = async () => new Response('', { status: 401 })
    const error: Error = await fetchWheel(wheel, folder, { env, get: refusing }).catch((error) => error)
    expect(error.message).toContain('https://mirror.invalid/simple/some-wheel/')
    expect(error.message).not.toContain('ss@')
  })

  test.each([
    ['another file', index(undefined, Buffer.from('other')), mirror, /is not the expected file \(sha256 \w+ instead/],
    ['no such file', index('../some_wheel-2.0.whl'), mirror, /does not list some_wheel-1\.0/],
    ['a link without encryption', index(`http://files.invalid/${FILE}`), mirror, /over HTTPS only, not http:/],
    ['an index without encryption', index(), { PIP_INDEX_URL: 'http://mirror.invalid' }, /over HTTPS only/],
    ['an error', async () => new Response('', { status: 503 }), mirror, /Cannot fetch .*answered 503/],
    ['no network', () => Promise.reject(new TypeError('fetch failed')), mirror, /Cannot fetch .*fetch failed/],
  ] as const)('is refused, and nothing of it kept: %s', async (_, get, env, message) => {
    await expect(fetchWheel(wheel, folder, { env, get })).rejects.toThrow(message)
    expect(await readdir(folder)).toEqual([])
  })

  describe("of CUDA's runtime", () => {
    const log: string[] = []
    const place = async (name: string) => {
      const library = join(folder, 'cache/native', name, 'libggml-cuda.so')
      await mkdir(dirname(library), { recursive: true })
      await writeFile(library, '')
      return library
    }
    const options = (workspace: string, mayFetch = true, get = index()) => ({
      ...{ workspace, mayFetch, get, wheels: [wheel], log: (line: string) => log.push(line) },
      env: { ...mirror, LOOKOUT_CACHE_DIR: join(folder, 'cache') },
    })

    test('is fetched once, and lies beside each library that needs it', async () => {
      const inWorkspace = await place('building-1/packaged')
      const workspace = dirname(dirname(inWorkspace))
      await addRuntime(inWorkspace, options(workspace))
      expect(await readFile(join(dirname(inWorkspace), 'libcublasLt.so.13'), 'utf8')).toBe('light')
      // The folder of a library is renamed when it has passed its check.
      const target = join(folder, 'cache/native/cuda-1')
      await cp(dirname(inWorkspace), target, { recursive: true, verbatimSymlinks: true })
      await rm(workspace, { recursive: true })
      expect(await readFile(join(target, 'libcudart.so.13'), 'utf8')).toBe('runtime')
      expect((await readdir(join(folder, 'cache/native/cuda-runtime-13.0'))).sort()).toEqual([
        'LICENSE.some',
        'libcublas.so.13',
        'libcublasLt.so.13',
        'libcudart.so.13',
      ])
      const other = await place('cuda-2')
      const requests = asked.length
      await addRuntime(other, options(folder, false))
      expect(await readFile(join(dirname(other), 'libcublas.so.13'), 'utf8')).toBe('products')
      expect(asked).toHaveLength(requests)
    })

    test('is explained where it cannot be had', async () => {
      const library = await place('cuda-1')
      await expect(addRuntime(library, options(folder, false))).rejects.toThrow(
        /libcudart\.so\.13.*"LOOKOUT_BACKEND=cuda npx lookout setup" fetches it \(423 MB/,
      )
      const offline = () => Promise.reject(new TypeError('fetch failed'))
      await expect(addRuntime(library, options(folder, true, offline))).rejects.toThrow(
        /fetch failed.*pip install --no-deps --target FOLDER nvidia-cuda-runtime==13\.0\.96 nvidia-cublas==13\.0\.2\.14/,
      )
    })
  })

  test.each([
    ['libcudart.so.13: cannot open shared object file: No such file or directory', true],
    ['libcublas.so.13: cannot open shared object file: No such file or directory', true],
    ['libcuda.so.1: cannot open shared object file: No such file or directory', false],
    ['it finds no device', false],
    [null, false],
  ])('is what a library lacks: %s', (refusal, lacks) => {
    expect(lacksRuntime(refusal)).toBe(lacks)
  })
})
