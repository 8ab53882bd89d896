// Compiles libraries against the prebuilt llama.cpp libraries.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, freemem } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ownHeaders, ownSources, SetupError } from './native-library.mjs'
import { isInstalled, run } from './run.mjs'

/** @import { Compilation, Recipe } from './types.ts' */

const PROJECT_ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

/** Memory for one compiler process. The largest files take about 600 MB. */
const BYTES_PER_JOB = 768 * 2 ** 20
/** The file that includes sources that are compiled together. */
const TOGETHER = 'together.cpp'

/**
 * Compiles one library. An object of an earlier run is reused if its file, the headers other than llama.cpp's own, the
 * flags and the compiler are the same.
 * @param {Recipe} recipe
 * @param {Compilation} to
 */
export async function compileLibrary(recipe, to) {
  const { compiler: command, source, objects, output, prebuilt, linkFlags = [], machine = '', progress } = to
  const [compiler, ...compilerArgs] = command
  const root = join(source, recipe.root)
  // Assertions name their source file: without the folders, a build is the same in every location.
  const folders = [source, PROJECT_ROOT].map((folder) => `-ffile-prefix-map=${folder}/=`)
  // nvcc splits arguments that it passes on at commas and spaces.
  const names = recipe.nvcc
    ? folders.filter((flag) => !/[\s,]/.test(flag)).map((flag) => `-Xcompiler=${flag}`)
    : folders
  const includes = recipe.includes.map((folder) => `-I${join(source, folder)}`)
  const theirs = await expandAll(root, recipe.sources)
  const together = await expandAll(root, recipe.together ?? [])
  const files = [...ownSources(recipe), ...theirs.map((file) => join(root, file))].map((file) => ({
    file,
    texts: [file],
  }))
  await applyFixes(recipe, source)
  await mkdir(objects, { recursive: true })
  if (together.length > 0) {
    const file = join(root, TOGETHER)
    await writeFile(file, together.map((name) => `#include "${name}"\n`).join(''))
    files.push({ file, texts: [file, ...together.map((name) => join(root, name))] })
  }
  const openmp = recipe.openmp !== undefined && (await hasOpenMp(command, objects)) ? recipe.openmp : []

  const common = await hashOfAll(recipe, source, [...theirs, ...together], [await versionOf(command), machine])
  const objectFiles = []
  let next = 0
  let done = 0
  const worker = async () => {
    while (next < files.length) {
      const number = next++
      const { file, texts } = files[number]
      // g++ and clang++ compile C when told to.
      const flags = [...recipe.flags, ...openmp, ...(file.endsWith('.c') ? ['-x', 'c', '-std=c11'] : ['-std=c++17'])]
      const key = hashOf([common, ...flags, ...(await Promise.all(texts.map((path) => readFile(path, 'utf8'))))])
      const object = join(objects, `${basename(file)}-${key}.o`)
      if (!existsSync(object)) {
        // An object gets its name once it is complete, so a compiler that is killed leaves no truncated one.
        const partial = join(objects, `${process.pid}-${number}.o`)
        await rm(partial, { force: true })
        await run(compiler, [...compilerArgs, ...flags, ...names, ...includes, '-c', file, '-o', partial])
        await rename(partial, object)
      }
      objectFiles[number] = object
      progress(++done, files.length)
    }
  }
  const workers = Array.from({ length: jobs(recipe.bytesPerJob) }, worker)
  try {
    await Promise.all(workers)
  } finally {
    // After a failure, other compilers finish their current file before the folder is deleted.
    next = files.length
    await Promise.allSettled(workers)
  }

  // The service loads llama.cpp's libraries first, and this library then finds them by name. It contains no path to
  // them, so one compiled library serves every checkout on the machine.
  const link = prebuilt.platform.startsWith('darwin')
    ? ['-dynamiclib', '-undefined', 'dynamic_lookup']
    : [
        '-shared',
        ...(recipe.nvcc ? [] : ['-Wl,--no-undefined', `-Wl,-soname,${basename(output)}`]),
        ...recipe.needs.map((name) => prebuilt[name]),
        ...(recipe.libraries ?? []),
      ]
  await run(compiler, [...compilerArgs, '-o', output, ...objectFiles, ...link, ...linkFlags, ...openmp])
}

/**
 * Applies a recipe's fixes to the source tree.
 * @param {Pick<Recipe, 'what' | 'fixes'>} recipe
 * @param {string} source
 * @throws SetupError when a text to replace does not occur exactly once: the fix was made for other sources.
 */
export async function applyFixes({ what, fixes = [] }, source) {
  for (const { file, text, by } of fixes) {
    const parts = (await readFile(join(source, file), 'utf8')).split(text)
    if (parts.length !== 2) {
      throw new SetupError(
        `Cannot compile ${what}: ${file} contains "${text}" ${parts.length - 1} times, not once. The fix in src/setup/native-library.mjs does not belong to this release of llama.cpp.`,
      )
    }
    await writeFile(join(source, file), parts.join(by))
  }
}

/**
 * Hash of everything that all objects of a build depend on besides their own file. llama.cpp's headers are pinned with
 * their release; ours, and those that fixes change, are not.
 */
async function hashOfAll(recipe, source, theirs, others) {
  const compiled = new Set(theirs.map((file) => join(recipe.root, file)))
  const fixed = (recipe.fixes ?? []).map(({ file }) => file).filter((file) => !compiled.has(file))
  const headers = [...ownHeaders(recipe), ...new Set(fixed.map((file) => join(source, file)))]
  const texts = await Promise.all(headers.map((file) => readFile(file, 'utf8')))
  return hashOf([recipe.source, ...recipe.includes, ...texts, ...others])
}

function hashOf(texts) {
  return createHash('sha256').update(JSON.stringify(texts)).digest('hex').slice(0, 16)
}

async function versionOf([compiler, ...args]) {
  return run(compiler, [...args, '--version'])
}

/** Whether the compiler can build a library that uses OpenMP. */
async function hasOpenMp([compiler, ...args], folder) {
  const source = join(folder, 'openmp.cpp')
  await writeFile(source, '#include <omp.h>\nint threads() { return omp_get_max_threads(); }\n')
  try {
    await run(compiler, [...args, '-fopenmp', '-fPIC', '-shared', source, '-o', join(folder, 'openmp.so')])
    return true
  } catch {
    return false
  }
}

/**
 * Finds a working C++ compiler.
 * @returns {Promise<[command: string, ...args: string[]]>} its command and leading arguments.
 */
export async function findCompiler() {
  const { CXX } = process.env
  if (CXX) {
    // CXX may contain arguments ("ccache g++"). If it is the path of a file, spaces are part of the path.
    const command = existsSync(CXX) ? [CXX] : CXX.trim().split(/\s+/)
    if (await isInstalled(command[0], [...command.slice(1), '--version'])) return command
    throw new SetupError(`The compiler in CXX does not start: ${CXX}`)
  }
  for (const name of ['g++', 'clang++', 'c++']) if (await isInstalled(name)) return [name]
  throw new SetupError(
    `No C++ compiler found. The image encoder is compiled once, at installation. ${
      process.platform === 'darwin'
        ? 'Install one with: xcode-select --install'
        : 'Install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++)'
    } and try again, or set CXX to one.`,
  )
}

async function expandAll(root, patterns) {
  return (await Promise.all(patterns.map((pattern) => expand(root, pattern)))).flat()
}

/** @param pattern a path, or `FOLDER/BEGINNING*.EXTENSION`. */
async function expand(root, pattern) {
  if (!pattern.includes('*')) return [pattern]
  const [beginning, end] = basename(pattern).split('*')
  const folder = dirname(pattern)
  const names = await readdir(join(root, folder))
  return names
    .filter((name) => name.startsWith(beginning) && name.endsWith(end))
    .sort()
    .map((name) => `${folder}/${name}`)
}

function jobs(bytesPerJob = BYTES_PER_JOB) {
  const cores = availableParallelism?.() ?? cpus().length
  return Math.max(1, Math.min(cores, Math.floor(freemem() / bytesPerJob)))
}
