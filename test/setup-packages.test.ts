import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findCompiler } from '../src/setup/compile.mjs'
import { atLevel, processorFeatures, supportedLevels } from '../src/setup/levels.mjs'
import {
  buildName,
  CPU,
  findCompiled,
  libraryFile,
  MTMD,
  platformPackage,
  writeManifest,
} from '../src/setup/native-library.mjs'
import { locatePrebuilt } from '../src/setup/prebuilt.mjs'
import { run } from '../src/setup/run.mjs'
import type { Recipe } from '../src/setup/types.ts'

/** Set-up beside a platform package. Its libraries are those that set-up has compiled on this machine. */
const { platform } = locatePrebuilt()
const level = supportedLevels(processorFeatures())[0]
const compiled = findCompiled(CPU, platform)

describe.runIf(level !== undefined && compiled !== null)('set-up with a platform package', () => {
  let folder: string
  let native: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lookout package '))
    const directory = join(folder, 'node_modules', platformPackage(platform))
    native = join(directory, 'native')
    await mkdir(native, { recursive: true })
    await writeFile(join(directory, 'package.json'), '{}')
    await put(MTMD, findCompiled(MTMD, platform)!)
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  async function put(recipe: Recipe, library: string): Promise<void> {
    const place = join(native, buildName(recipe, platform))
    await mkdir(place, { recursive: true })
    await cp(library, join(place, libraryFile(recipe)))
    writeManifest(place, recipe, platform, null)
  }

  const environment = () => ({
    ...process.env,
    NODE_PATH: join(folder, 'node_modules'),
    LOOKOUT_CACHE_DIR: join(folder, 'cache'),
    CXX: '/no/such/compiler',
  })
  const setUp = (event: string) =>
    run(process.execPath, ['scripts/setup.mjs'], { env: { ...environment(), npm_lifecycle_event: event } })

  /** What a server on this machine would load. */
  async function located(): Promise<Record<'mtmd' | 'kernels' | 'kernelLevel', string | null>> {
    const script = `import { locateNativeLibraries } from './src/inference/local/native/native-paths.ts'
      console.log(JSON.stringify(locateNativeLibraries('cpu')))`
    return JSON.parse(await run(process.execPath, ['--input-type=module', '--eval', script], { env: environment() }))
  }

  test('needs no compiler, and the engine finds the libraries', async () => {
    await put(atLevel(CPU, level!), compiled!)
    expect(await setUp('postinstall')).toContain(`are already built (${platformPackage(platform)})`)
    const { mtmd, kernels, kernelLevel } = await located()
    expect(dirname(dirname(mtmd!))).toBe(native)
    expect(dirname(dirname(kernels!))).toBe(native)
    expect(kernelLevel).toBe(level!.name)
  })

  test('compiles all the same when somebody asks, and keeps the package when it cannot', async () => {
    await put(atLevel(CPU, level!), compiled!)
    const output = await setUp('setup')
    expect(output).toContain(`cannot compile the image encoder (libmtmd); using ${platformPackage(platform)}`)
    expect(output).toContain(`cannot compile ${CPU.what}; using ${platformPackage(platform)}`)
    expect((await located()).kernelLevel).toBe(level!.name)
  })

  test('does not use kernels that this machine computes wrongly with', async () => {
    const [command, ...args] = await findCompiler()
    const source = join(folder, 'kernels.cpp')
    const wrong = join(folder, 'wrong.so')
    await writeFile(source, 'extern "C" int lookout_argmax() { return 3; }')
    const link = ['-Wl,--no-as-needed', compiled!, `-Wl,-rpath,${dirname(compiled!)}`]
    await run(command!, [...args, '-shared', '-fPIC', source, '-o', wrong, ...link])
    await put(atLevel(CPU, level!), wrong)
    const output = await setUp('postinstall')
    expect(output).toContain(`not using the kernels for ${level!.name}: the likeliest token is wrong`)
    expect(await located()).toMatchObject({ mtmd: expect.any(String), kernels: null, kernelLevel: null })
  })

  test('does not use the package of other sources, nor a library that is damaged', async () => {
    await put({ ...atLevel(CPU, level!), flags: ['-O1'] }, compiled!)
    await writeFile(join(native, buildName(MTMD, platform), libraryFile(MTMD)), 'damaged')
    expect(await located()).toMatchObject({ mtmd: null, kernels: null })
  })
})
