import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { applyFixes } from '../src/setup/compile.mjs'
import { findLibrary, locatePrebuilt, MTMD, wantsOwnKernels } from '../src/setup/native-library.mjs'

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
      expect(output).toMatch(/cannot compile the kernels for this machine's processor.*slower.*CXX does not start/)
      expect(code).toBe(0)
    },
  )

  test('does not use a damaged build', async () => {
    await truncate(library, 1000)
    const { code, output } = await runSetup({ LOOKOUT_CACHE_DIR: cache, CXX: '/no/such/compiler' })
    expect(output).toContain('The compiler in CXX does not start: /no/such/compiler')
    expect(code).toBe(1)
  })

  test('without a compiler, says what to install', async () => {
    await rm(join(cache, 'native'), { recursive: true })
    const { code, output } = await runSetup({ LOOKOUT_CACHE_DIR: cache, CXX: '', PATH: '' })
    expect(output).toMatch(/No C\+\+ compiler found.*(apt-get install g\+\+|xcode-select --install)/)
    expect(code).toBe(1)
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
