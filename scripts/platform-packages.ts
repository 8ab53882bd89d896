/**
 * `npm run platform-packages -- [--portable] [PLATFORM...]`: compiles the native libraries ahead, each platform's into an
 * npm package of its own below `out/packages`. Linux x64 and arm64 can be compiled on Linux of either kind with Debian's
 * cross compilers, macOS on macOS. By default it makes those that this machine can.
 *
 * `npm run platform-packages -- [--portable] [--arch NUMBER,...] cuda` makes the package with the CUDA backend for Linux x64:
 * see `cuda-package.ts`.
 *
 * A machine that runs a library must have the glibc that llama.cpp's prebuilt libraries need (2.34). A compiler with a newer
 * glibc may make libraries that need that one. The script prints what each library needs; with `--portable` it fails for those.
 */
import { existsSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { CUDA_ARCHITECTURES } from '../src/setup/backends.mjs'
import { compileLibrary, findCompiler } from '../src/setup/compile.mjs'
import { checkKernels } from '../src/setup/kernel-check.mjs'
import { atLevel, LEVELS, processorFeatures, supportedLevels } from '../src/setup/levels.mjs'
import {
  buildName,
  CPU,
  LLAMA_RELEASE,
  libraryFile,
  MTMD,
  platformPackage,
  SetupError,
  writeManifest,
} from '../src/setup/native-library.mjs'
import { locatePrebuilt, prebuiltPackage } from '../src/setup/prebuilt.mjs'
import { isInstalled, run } from '../src/setup/run.mjs'
import { fetchSource } from '../src/setup/source.mjs'
import { fetchTarball } from '../src/setup/tarball.mjs'
import type { Level, Recipe } from '../src/setup/types.ts'
import { makeCudaPackage } from './cuda-package.ts'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const HERE = `${process.platform}-${process.arch}`
const OPENMP = 'libgomp.so.1'
/** The minor version of glibc 2 that llama.cpp's prebuilt libraries need. */
const GLIBC_MINOR = 34
/** The texts of llama.cpp's tree that go with libmtmd and the kernels. */
const LICENCES = ['LICENSE', 'licenses']
/** GCC's OpenMP library is under the GPL with an exception; Debian has its texts wherever the compiler is installed. */
const OPENMP_LICENCE = '/usr/share/doc/libgomp1/copyright'
const CROSS_COMPILERS: Readonly<Record<string, string>> = {
  'linux-x64': 'x86_64-linux-gnu-g++',
  'linux-arm64': 'aarch64-linux-gnu-g++',
}

interface Target {
  readonly platform: string
  readonly compiler: readonly string[]
  readonly directory: string
  /** Whether a library that needs a newer glibc than llama.cpp's is an error. */
  readonly portable: boolean
}

const log = (message: string) => console.log(`platform packages: ${message}`)

async function main(): Promise<void> {
  const { values, positionals: asked } = parseArgs({
    options: { portable: { type: 'boolean', default: false }, arch: { type: 'string' } },
    allowPositionals: true,
  })
  if (asked.includes('cuda')) {
    const architectures = values.arch?.split(',').map(Number) ?? CUDA_ARCHITECTURES
    if (asked.length > 1) throw new SetupError('Make the package "cuda" by itself.')
    return makeCudaPackage({ architectures, directory: packageFolder('linux-x64-cuda'), log, checkGlibc, ...values })
  }
  const platforms = asked.length > 0 ? asked : ['linux-x64', 'linux-arm64', 'darwin-arm64']
  for (const platform of platforms) {
    const compiler = await compilerFor(platform)
    if (compiler !== null) await makePackage({ platform, compiler, directory: packageFolder(platform), ...values })
    else if (asked.length > 0) throw new SetupError(`This machine has no compiler for ${platform}.`)
    else log(`${platform} is left out: this machine has no compiler for it`)
  }
}

function packageFolder(platform: string): string {
  return join(ROOT, 'out/packages', platformPackage(platform))
}

async function compilerFor(platform: string): Promise<readonly string[] | null> {
  if (platform === HERE) return findCompiler()
  const cross = process.platform === 'linux' ? CROSS_COMPILERS[platform] : undefined
  return cross !== undefined && (await isInstalled(cross)) ? [cross] : null
}

async function makePackage(target: Target): Promise<void> {
  const { platform, directory } = target
  await rm(directory, { recursive: true, force: true })
  await mkdir(join(directory, 'native'), { recursive: true })
  if (platform !== HERE) await fetchPrebuilt(platform)
  await build(MTMD, target)
  if (platform === 'linux-x64') {
    const openmp = join(directory, 'native', OPENMP)
    await copyFile(await realpath(await fileOfCompiler(target, OPENMP)), openmp)
    await checkGlibc(openmp, OPENMP, target)
    await copyFile(OPENMP_LICENCE, join(directory, `LICENSE.${OPENMP}`))
    for (const level of LEVELS) await buildKernels(level, target)
  }
  await describe(target)
  log(`${platformPackage(platform)} is ready: ${directory}`)
}

/** npm installs llama.cpp's libraries for this machine alone. Those of another are put beside them, until the next `npm ci`. */
async function fetchPrebuilt(platform: string): Promise<void> {
  const name = prebuiltPackage(platform)
  const folder = join(ROOT, 'node_modules', name)
  if (existsSync(join(folder, 'package.json'))) return
  log(`${platform}: fetching ${name}`)
  const { packages } = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8'))
  const { integrity } = packages[`node_modules/${name}`]
  const workspace = await mkdtemp(join(tmpdir(), 'lookout-prebuilt-'))
  try {
    const tarball = await fetchTarball({ name, integrity, contains: 'the libraries of llama.cpp' }, workspace, ROOT)
    await mkdir(folder, { recursive: true })
    await run('tar', ['-xzf', tarball, '-C', folder, '--strip-components=1'])
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
}

async function buildKernels(level: Level, target: Target): Promise<void> {
  const library = await build(atLevel(CPU, level), target, [`-Wl,-rpath,$ORIGIN/..`])
  if (target.platform !== HERE || !supportedLevels(processorFeatures()).includes(level)) {
    return log(`the kernels for ${level.name} are NOT CHECKED: this processor cannot run them`)
  }
  const problem = await checkKernels(library, locatePrebuilt(target.platform))
  if (problem !== null) throw new SetupError(`The kernels for ${level.name} fail their check: ${problem}.`)
  log(`the kernels for ${level.name} pass their check`)
}

/** @returns the library's path in the package. */
async function build(recipe: Recipe, target: Target, linkFlags: readonly string[] = []): Promise<string> {
  const { platform, compiler, directory } = target
  const what = recipe.level === undefined ? recipe.name : `${recipe.name} (${recipe.level})`
  log(`${platform}: compiling ${what}`)
  const folder = join(directory, 'native', buildName(recipe, platform))
  const output = join(folder, libraryFile(recipe, platform))
  const workspace = await mkdtemp(join(tmpdir(), 'lookout-prebuild-'))
  try {
    await mkdir(folder, { recursive: true })
    const source = await fetchSource(workspace, ROOT, [...recipe.folders, ...LICENCES])
    await compileLibrary(recipe, {
      compiler,
      source,
      objects: join(workspace, 'objects'),
      output,
      prebuilt: locatePrebuilt(platform),
      linkFlags: [...linkFlags, ...(platform.startsWith('linux') ? ['-Wl,-s'] : [])],
      progress() {},
    })
    writeManifest(folder, recipe, platform, null)
    await copyFile(join(source, 'LICENSE'), join(directory, 'LICENSE.llama.cpp'))
    for (const name of await readdir(join(source, 'licenses'))) {
      await copyFile(join(source, 'licenses', name), join(directory, name.replace('LICENSE-', 'LICENSE.')))
    }
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
  await checkGlibc(output, what, target)
  return output
}

async function fileOfCompiler({ compiler: [command, ...args] }: Target, name: string): Promise<string> {
  return (await run(command!, [...args, `-print-file-name=${name}`])).trim()
}

/** Says which glibc a library needs. @throws SetupError when that is too new for a portable package. */
async function checkGlibc(
  library: string,
  what: string,
  { platform, portable }: Pick<Target, 'platform' | 'portable'>,
): Promise<void> {
  if (!platform.startsWith('linux')) return
  const versions = (await readFile(library, 'latin1')).match(/GLIBC_2\.\d+/g) ?? []
  const minor = Math.max(...versions.map((version) => Number(version.slice('GLIBC_2.'.length))))
  log(`${what} needs glibc 2.${minor}`)
  if (!portable || minor <= GLIBC_MINOR) return
  throw new SetupError(`${what} needs glibc 2.${minor}, newer than 2.${GLIBC_MINOR}: compile it on an older Linux.`)
}

async function describe({ platform, directory }: Target): Promise<void> {
  const { version, license } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const [os, cpu] = platform.split('-')
  const isLinux = os === 'linux'
  const hasOpenMp = platform === 'linux-x64'
  const manifest = {
    name: platformPackage(platform),
    version,
    description: `Native libraries of Lookout for ${platform}: the image encoder (libmtmd of llama.cpp ${LLAMA_RELEASE})${
      hasOpenMp ? ' and kernels for several kinds of processor' : ''
    }.`,
    license: hasOpenMp ? `${license} AND GPL-3.0-or-later WITH GCC-exception-3.1` : license,
    os: [os],
    cpu: [cpu],
    ...(isLinux ? { libc: ['glibc'] } : {}),
    files: ['native', 'LICENSE*'],
    preferUnplugged: true,
  }
  await writeFile(join(directory, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  await copyFile(join(ROOT, 'LICENSE'), join(directory, 'LICENSE'))
  await writeFile(join(directory, 'README.md'), readme(platform, hasOpenMp))
}

function readme(platform: string, hasOpenMp: boolean): string {
  const openmp = `
\`native/${OPENMP}\` is GCC's OpenMP library, as the distribution of the machine that made this package has it. It is under
the GNU GPL 3 with the GCC Runtime Library Exception; LICENSE.${OPENMP} says where its source is.
`
  return `# ${platformPackage(platform)}

Libraries that Lookout would otherwise compile when it is installed, for ${platform}. Lookout chooses among them by itself.
They are made of llama.cpp ${LLAMA_RELEASE} and Lookout's own kernels, both under the MIT licence.
${hasOpenMp ? openmp : ''}`
}

main().catch((error: unknown) => {
  console.error(`platform packages failed: ${error instanceof SetupError ? error.message : (error as Error).stack}`)
  process.exitCode = 1
})
