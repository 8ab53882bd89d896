import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { applyFixes, compileLibrary, findCompiler } from '../src/setup/compile.mjs'
import { checkKernels } from '../src/setup/kernel-check.mjs'
import {
  CPU,
  findLibrary,
  libraryDirectory,
  libraryFile,
  MTMD,
  wantsOwnKernels,
  writeManifest,
} from '../src/setup/native-library.mjs'
import { locatePrebuilt } from '../src/setup/prebuilt.mjs'
import { run } from '../src/setup/run.mjs'

const SCRIPT = fileURLToPath(new URL('../scripts/setup.mjs', import.meta.url))

function runSetup(env: NodeJS.ProcessEnv): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT], { env: { ...process.env, ...env } }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr })
    })
  })
}

describe('setup', () => {
  let cache: string
  let library: string

  beforeEach(async () => {
    // Paths on desktops often contain spaces.
    cache = await mkdtemp(join(tmpdir(), 'lookout setup '))
    const { platform } = locatePrebuilt()
    const built = findLibrary(MTMD, platform)
    if (built === null) throw new Error('These tests need the library: npm run setup')
    await cp(dirname(dirname(built)), join(cache, 'native'), { recursive: true })
    library = findLibrary(MTMD, platform, { LOOKOUT_CACHE_DIR: cache })!
  })

  afterEach(() => rm(cache, { recursive: true, force: true }))

  test('uses a finished build from the cache, without a compiler or a network', async () => {
    const { code, output } = await runSetup({ LOOKOUT_CACHE_DIR: cache, CXX: '/no/such/compiler', PATH: '' })
    expect(output).toContain('already built')
    expect(code).toBe(0)
  })

  test.runIf(wantsOwnKernels(locatePrebuilt().platform))(
    'falls back to the prebuilt kernels when it cannot compile better ones',
    async () => {
      const native = join(cache, 'native')
      const kernels = (await readdir(native)).filter((name) => name.startsWith('cpu-'))
      for (const name of kernels) await rm(join(native, name), { recursive: true })
      const { code, output } = await runSetup({ LOOKOUT_CACHE_DIR: cache, CXX: '/no/such/compiler' })
      expect(output).toMatch(/cannot compile the kernels for this machine's processor.*slower\n.*CXX does not start/)
      expect(code).toBe(0)
    },
  )

  test('does not use a damaged build', async () => {
    await truncate(library, 1000)
    const { code, output } = await runSetup({ LOOKOUT_CACHE_DIR: cache, CXX: '/no/such/compiler' })
    expect(output).toMatch(/cannot compile the image encoder .*: models answer about text, but not about images/)
    expect(output).toContain('The compiler in CXX does not start: /no/such/compiler')
    expect(code).toBe(0)
  })

  test('without a compiler, says what to install', async () => {
    await rm(join(cache, 'native'), { recursive: true })
    const { code, output } = await runSetup({ LOOKOUT_CACHE_DIR: cache, CXX: '', PATH: '' })
    expect(output).toMatch(/No C\+\+ compiler found.*(apt-get install g\+\+|xcode-select --install)/)
    expect(output).toMatch(/cannot compile the image encoder .*: models answer about text, but not about images/)
    expect(code).toBe(0)
    expect(await readdir(cache)).toEqual([])
  })

  test('rejects a relative cache folder', async () => {
    const { code, output } = await runSetup({ LOOKOUT_CACHE_DIR: 'relative/path' })
    expect(output).toContain('LOOKOUT_CACHE_DIR must be an absolute path')
    expect(code).toBe(1)
  })
})

describe('a fix of the sources', () => {
  const fixes = [{ file: 'a.cpp', text: 'wrong(x)', by: 'right(x)' }]
  let source: string
  beforeEach(async () => {
    source = await mkdtemp(join(tmpdir(), 'lookout-sources-'))
  })
  afterEach(() => rm(source, { recursive: true, force: true }))

  test('is made where its text is', async () => {
    await writeFile(join(source, 'a.cpp'), 'y = wrong(x);')
    await applyFixes({ what: 'it', fixes }, source)
    expect(await readFile(join(source, 'a.cpp'), 'utf8')).toBe('y = right(x);')
  })

  test.each([
    ['y = other(x);', 0],
    ['wrong(x) + wrong(x)', 2],
  ])('fails where its text is not there once: %s', async (text, times) => {
    await writeFile(join(source, 'a.cpp'), text)
    await expect(applyFixes({ what: 'it', fixes }, source)).rejects.toThrow(
      `Cannot compile it: a.cpp contains "wrong(x)" ${times} times, not once.`,
    )
  })
})

test('files that are compiled together are one file, which is compiled again when one of them changes', async () => {
  const source = await mkdtemp(join(tmpdir(), 'lookout together '))
  onTestFinished(() => rm(source, { recursive: true }))
  const write = (name: string, text: string) =>
    writeFile(join(source, `parts/${name}.cpp`), `const char * ${name}() { return "${name} is ${text}"; }\n`)
  await mkdir(join(source, 'parts'))
  await write('one', 'first')
  await write('two', 'first')
  const recipe = { name: 'it', what: 'it', folders: [], root: '.', includes: [], sources: [], needs: [] }
  const objects = join(source, 'objects')
  const output = join(source, libraryFile(MTMD))
  const progress = vi.fn()
  const compile = async () => {
    await compileLibrary(
      { ...recipe, together: ['parts/*.cpp'], flags: ['-fPIC'] },
      { compiler: await findCompiler(), source, objects, output, prebuilt: locatePrebuilt(), progress },
    )
    return (await readFile(output, 'latin1')).match(/(?:one|two) is \w+/g)?.sort()
  }
  expect(await compile()).toEqual(['one is first', 'two is first'])
  await write('two', 'second')
  expect(await compile()).toEqual(['one is first', 'two is second'])
  expect(await compile()).toEqual(['one is first', 'two is second'])
  expect(progress.mock.calls).toEqual([
    [1, 1],
    [1, 1],
    [1, 1],
  ])
  expect((await readdir(objects)).filter((name) => name.endsWith('.o'))).toHaveLength(2)
})

const { platform, ...prebuilt } = locatePrebuilt()

describe.runIf(wantsOwnKernels(platform))('compiled kernels', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lookout kernels '))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  /** Compiles kernels that behave as ours do, except for one function. */
  async function kernelsWith(code: string): Promise<string> {
    const [command, ...args] = await findCompiler()
    const source = join(folder, 'kernels.cpp')
    const output = join(folder, libraryFile(CPU))
    await writeFile(source, code)
    const ours = findLibrary(CPU, platform)!
    const link = ['-Wl,--no-as-needed', ours, `-Wl,-rpath,${dirname(ours)}`]
    await run(command!, [...args, '-shared', '-fPIC', source, '-o', output, ...link])
    return output
  }

  test('that compute what they should pass their check', async () => {
    expect(await checkKernels(findLibrary(CPU, platform)!, prebuilt)).toBeNull()
  })

  test.each([
    ['that crash', 'extern "C" int lookout_argmax() { __builtin_trap(); }', 'they crash (SIGILL)'],
    ['that are wrong', 'extern "C" int lookout_argmax() { return 3; }', 'the likeliest token is wrong'],
    [
      'that cannot be loaded',
      '__attribute__((constructor)) static void f() { __builtin_exit(7); }',
      'the check failed: exit code 7',
    ],
    ['that hang', '#include <unistd.h>\nextern "C" int lookout_argmax() { for (;;) sleep(1); }', 'not end within 2 s'],
  ])('%s are refused', async (_, code, reason) => {
    const limitMs = reason.includes('within') ? 2000 : undefined
    expect(await checkKernels(await kernelsWith(code), prebuilt, limitMs)).toContain(reason)
  })

  test('that were refused are not used, and compiled again only when somebody asks', async () => {
    const env = { LOOKOUT_CACHE_DIR: folder, CXX: '/no/such/compiler' }
    await cp(dirname(findLibrary(MTMD, platform)!), libraryDirectory(MTMD, platform, env), { recursive: true })
    const directory = libraryDirectory(CPU, platform, env)
    await cp(dirname(findLibrary(CPU, platform)!), directory, { recursive: true })
    writeManifest(directory, CPU, platform, 'attention is wrong')
    expect(findLibrary(CPU, platform, env)).toBeNull()
    const installed = await runSetup({ ...env, npm_lifecycle_event: 'postinstall' })
    expect(installed.output).toMatch(/not using the kernels .*: attention is wrong; the prebuilt ones are slower/)
    expect(installed.output).toContain('already built')
    const asked = await runSetup({ ...env, npm_lifecycle_event: 'setup' })
    expect(asked.output).toMatch(/cannot compile the kernels/)
    expect([installed.code, asked.code]).toEqual([0, 0])
  })
})
