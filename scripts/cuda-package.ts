/**
 * Makes the package with the CUDA backend for Linux x64: for several architectures of GPUs, by CUDA 13.0's compiler. Where the
 * machine has no such toolkit, the compiler comes from NVIDIA's wheels. Needs no GPU and no driver.
 *
 * Two cores need up to half an hour for each architecture. What is compiled stays in `out/cuda`, one file for all of the
 * architectures at a time, and a run that was interrupted goes on there.
 */
import { existsSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CUDA, CUDA_ARCHITECTURES, forArchitectures, GPU_BACKENDS, PACKAGED_CUDA } from '../src/setup/backends.mjs'
import { compileLibrary, findCompiler } from '../src/setup/compile.mjs'
import { cudaPackage, findNvcc } from '../src/setup/cuda.mjs'
import { capabilityText } from '../src/setup/cuda-choice.mjs'
import { fetchWheels, TOOLKIT_WHEELS, WHEEL_ROOT } from '../src/setup/cuda-runtime.mjs'
import { buildName, LLAMA_RELEASE, MANIFEST_FILE, SetupError, sha256 } from '../src/setup/native-library.mjs'
import { locatePrebuilt } from '../src/setup/prebuilt.mjs'
import { isInstalled, run } from '../src/setup/run.mjs'
import { fetchSource } from '../src/setup/source.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const PLATFORM = 'linux-x64'
const TOOLKIT_RELEASE = '13.0'
const PROGRESS_INTERVAL_MS = 10_000
/** Beyond it, the package is to be made for fewer architectures. */
const LARGEST_BYTES = 150e6

type Log = (message: string) => void

export async function makeCudaPackage(to: {
  readonly architectures: readonly number[]
  readonly directory: string
  readonly portable: boolean
  readonly log: Log
  readonly checkGlibc: (
    library: string,
    what: string,
    target: { readonly platform: string; readonly portable: boolean },
  ) => Promise<void>
}): Promise<void> {
  const { architectures, directory, log } = to
  const unknown = architectures.find((number) => !CUDA_ARCHITECTURES.includes(number))
  if (unknown !== undefined) {
    throw new SetupError(`--arch: expected ${CUDA_ARCHITECTURES.join(', ')}, not ${unknown}.`)
  }
  const work = join(ROOT, 'out/cuda')
  await mkdir(work, { recursive: true })
  const nvcc = await findToolkit(join(work, 'toolkit'), log)
  const source = await freshSource(work)
  const backend = GPU_BACKENDS[PLATFORM]!.find(({ name }) => name === 'cuda')!
  await rm(directory, { recursive: true, force: true })
  const folder = join(directory, 'native', buildName(PACKAGED_CUDA, PLATFORM))
  await mkdir(folder, { recursive: true })
  const output = join(folder, basename(backend.file))
  const names = architectures.map((number) => `sm_${number}`).join(', ')
  log(`compiling the CUDA backend for ${names} with ${nvcc}, ${availableParallelism()} files at a time`)
  const recipe = forArchitectures(CUDA, architectures)
  await compileLibrary(recipe, {
    compiler: [nvcc],
    source,
    objects: join(work, 'objects'),
    output,
    prebuilt: locatePrebuilt(PLATFORM),
    // CUDA's runtime may lie beside the library: see cuda-runtime.mjs. What nvcc adds when it links is for 7.5 by default.
    linkFlags: [
      ...['-Xlinker', '-rpath=$ORIGIN', '-Xlinker', '-s'],
      ...recipe.flags.filter((flag) => flag.startsWith('-gencode')),
    ],
    progress: progressOf(log),
  })
  checkMachineCode(await readFile(output), architectures)
  const { size: bytes } = await stat(output)
  log(`the library has ${(bytes / 1e6).toFixed(1)} MB, and machine code for ${names}`)
  if (bytes > LARGEST_BYTES) throw new SetupError(`That is more than ${LARGEST_BYTES / 1e6} MB: see --arch.`)
  await to.checkGlibc(output, 'the CUDA backend', { platform: PLATFORM, portable: to.portable })
  const manifest = { release: LLAMA_RELEASE, platform: PLATFORM, architectures, bytes, sha256: sha256(output) }
  await writeFile(join(folder, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`)
  await copyFile(join(source, 'LICENSE'), join(directory, 'LICENSE.llama.cpp'))
  await describe(directory, architectures)
  log(`${cudaPackage(PLATFORM)} is ready: ${directory}`)
}

/** The same path each time: objects that are compiled again name their sources as the others do. */
async function freshSource(work: string): Promise<string> {
  await rm(join(work, 'source'), { recursive: true, force: true })
  return fetchSource(work, ROOT, [...CUDA.folders, 'LICENSE'])
}

function progressOf(log: Log): (done: number, all: number) => void {
  const started = Date.now()
  let shown = 0
  return (done, all) => {
    if (done < all && Date.now() - shown < PROGRESS_INTERVAL_MS) return
    shown = Date.now()
    log(`${done} of ${all} files, ${((Date.now() - started) / 60_000).toFixed(1)} minutes`)
  }
}

/** The machine's compiler, if its toolkit is whole and of the package's release; else the one of NVIDIA's wheels. */
async function findToolkit(folder: string, log: Log): Promise<string> {
  const installed = await findNvcc()
  if (installed !== null && (await isWhole(installed, dirname(folder)))) return installed
  const nvcc = join(folder, 'bin/nvcc')
  if (existsSync(nvcc)) return nvcc
  log(`fetching CUDA ${TOOLKIT_RELEASE}'s compiler and libraries (525 MB)`)
  await mkdir(dirname(folder), { recursive: true })
  const workspace = await mkdtemp(`${folder}-`)
  try {
    const product = join(workspace, 'toolkit')
    await fetchWheels(TOOLKIT_WHEELS, product, workspace, { log }, toolkitFile)
    await completeToolkit(product)
    await rm(folder, { recursive: true, force: true })
    await rename(product, folder)
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
  return nvcc
}

async function isWhole(nvcc: string, work: string): Promise<boolean> {
  if (!(await run(nvcc, ['--version'])).includes(`release ${TOOLKIT_RELEASE},`)) return false
  const probe = join(work, 'probe.cu')
  await writeFile(probe, '#include <cublas_v2.h>\n')
  return isInstalled(nvcc, ['-E', probe, '-o', join(work, 'probe.ii')])
}

/** Where a wheel's file goes in the toolkit's folder. cuBLAS's second library is not needed to link with the first. */
function toolkitFile(name: string): string | null {
  if (!name.startsWith(WHEEL_ROOT) || name.endsWith('/libcublasLt.so.13')) return null
  return name.slice(WHEEL_ROOT.length)
}

/** Adds what the wheels lack of a toolkit: the folder names by which nvcc looks, and libraries for the linker. */
export async function completeToolkit(folder: string): Promise<void> {
  await mkdir(join(folder, 'targets'))
  await symlink('..', join(folder, 'targets/x86_64-linux'))
  await symlink('lib', join(folder, 'lib64'))
  const stubs = join(folder, 'lib/stubs')
  await mkdir(stubs)
  for (const name of ['libcudart', 'libcublas']) await symlink(`../${name}.so.13`, join(stubs, `${name}.so`))
  await makeDriverStub(join(folder, 'include/cuda.h'), join(stubs, 'libcuda.so'))
}

/** The driver's library comes with the driver: for the linker, one with its name and its functions stands in for it. */
export async function makeDriverStub(header: string, output: string): Promise<void> {
  const text = await readFile(header, 'utf8')
  const declared = [...text.matchAll(/\bCUDAAPI\s+(cu\w+)\s*\(/g)].map(([, name]) => name!)
  const renamed = [...text.matchAll(/^\s*#define\s+cu\w+\s+(cu\w+_v\d+)\s*$/gm)].map(([, name]) => name!)
  const source = `${output}.cpp`
  const functions = [...new Set([...declared, ...renamed])].map((name) => `extern "C" int ${name}() { return 999; }\n`)
  await writeFile(source, functions.join(''))
  const [compiler, ...args] = await findCompiler()
  await run(compiler, [...args, '-shared', '-fPIC', '-Wl,-soname,libcuda.so.1', '-o', output, source])
  await rm(source)
}

/** @throws SetupError when code for an architecture is missing in a file of the library, or is not machine code. */
export function checkMachineCode(library: Buffer, architectures: readonly number[]): void {
  const found = machineCode(library)
  const expected = [...architectures].sort((a, b) => a - b).join()
  for (const numbers of found) {
    if ([...numbers].sort((a, b) => a - b).join() === expected) continue
    throw new SetupError(`The library has machine code for ${numbers.join(', ')}, not for ${architectures.join(', ')}.`)
  }
  if (found.length === 0) throw new SetupError('The library has no machine code.')
}

const CONTAINER = Buffer.from([0x50, 0xed, 0x55, 0xba])
const CONTAINER_BYTES = 16
const ENTRY_BYTES = 32
/** The kinds of an entry: 1 is PTX, which the driver compiles. */
const MACHINE_CODE = 2

/** For each compiled file within a library, the architectures that it has machine code for. As `cuobjdump --list-elf`. */
export function machineCode(library: Buffer): number[][] {
  const files: number[][] = []
  for (let at = library.indexOf(CONTAINER); at >= 0; at = library.indexOf(CONTAINER, at + 1)) {
    if (at + CONTAINER_BYTES > library.length || library.readUInt16LE(at + 6) !== CONTAINER_BYTES) continue
    const end = at + CONTAINER_BYTES + Number(library.readBigUInt64LE(at + 8))
    const numbers: number[] = []
    for (let entry = at + CONTAINER_BYTES; entry + ENTRY_BYTES <= Math.min(end, library.length); ) {
      if (library.readUInt16LE(entry) === MACHINE_CODE) numbers.push(library.readUInt32LE(entry + 28))
      entry += Math.max(ENTRY_BYTES, library.readUInt32LE(entry + 4)) + Number(library.readBigUInt64LE(entry + 8))
    }
    files.push(numbers)
  }
  return files
}

async function describe(directory: string, architectures: readonly number[]): Promise<void> {
  const { version, license } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const [os, cpu] = PLATFORM.split('-')
  const name = cudaPackage(PLATFORM)
  const capabilities = architectures.map(capabilityText).join(', ')
  const manifest = {
    name,
    version,
    description: `The CUDA backend of Lookout for ${PLATFORM}, with machine code for compute capability ${capabilities}.`,
    license,
    os: [os],
    cpu: [cpu],
    libc: ['glibc'],
    files: ['native', 'LICENSE*'],
    preferUnplugged: true,
  }
  await writeFile(join(directory, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  await copyFile(join(ROOT, 'LICENSE'), join(directory, 'LICENSE'))
  await writeFile(
    join(directory, 'README.md'),
    `# ${name}

The CUDA backend of llama.cpp ${LLAMA_RELEASE} with Lookout's own kernels, both under the MIT licence, compiled for NVIDIA GPUs
of compute capability ${capabilities}. It needs a driver of version 580 or later, and CUDA 13's runtime, which
\`LOOKOUT_BACKEND=cuda npx lookout setup\` finds or fetches. Set-up says whether it uses this package.
`,
  )
}
