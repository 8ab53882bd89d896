import { expect, test } from 'vitest'
import { run } from '../../../setup/run.mjs'
import { locateNativeLibraries } from './native-paths.ts'

const { mtmd } = locateNativeLibraries()

/** Loads the libraries, keeps nothing of them, collects, and prints whether they are still there. */
const SCRIPT = `
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { loadNativeLibraries } from '${new URL('libraries.ts', import.meta.url)}'
import { locateNativeLibraries } from '${new URL('native-paths.ts', import.meta.url)}'
const paths = locateNativeLibraries()
const load = () => void loadNativeLibraries(paths)
load()
for (let i = 0; i < 3; i++) {
  gc()
  await delay(20)
}
const maps = readFileSync('/proc/self/maps', 'utf8')
console.log([paths.ggmlBase, paths.ggml, paths.llama, paths.llamaCommon, paths.mtmd].every((path) => maps.includes(path)))
process.exit(0)
`

/**
 * A model without images uses nothing of libmtmd, in which the engine's pulse runs. Without a GPU backend, the loader keeps
 * libmtmd for symbols that no other library has defined before.
 */
test.runIf(process.platform === 'linux' && mtmd !== null)(
  'libraries stay loaded when nothing refers to them',
  async () => {
    const env = { ...process.env, LOOKOUT_BACKEND: 'auto' }
    const output = await run(process.execPath, ['--expose-gc', '--input-type=module', '--eval', SCRIPT], { env })
    expect(output.trim()).toBe('true')
  },
)
