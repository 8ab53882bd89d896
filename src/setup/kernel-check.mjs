// Checks whether compiled kernels, or a GPU backend, compute correctly. A compiler may mishandle an intrinsic, as GCC
// 12 does with AMX, and a driver may be too old for a backend: the engine would crash at its first product, or generate
// nonsense.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { giveUp } from './run.mjs'

/** @import { PrebuiltLibraries } from './types.ts' */

const SCRIPT = fileURLToPath(new URL('./kernel-sums.mjs', import.meta.url))
/**
 * The check takes less than a second, but longer on a machine that is busy compiling, or that compiles a GPU's
 * programs.
 */
const LIMIT_MS = 60_000
/** What a GPU backend, or the loader, prints before it ends the process. */
const CAUSE = /((CUDA|ROCm|Vulkan) error: .*|ggml was not compiled with .*|failed to load .*?: (.*))$/im

/**
 * Loads a library in another process, which it may crash, and runs calculations with known results on it.
 * @param {string} library path of compiled kernels or of a GPU backend.
 * @param {Pick<PrebuiltLibraries, 'ggmlBase' | 'ggml'>} prebuilt
 * @returns {Promise<string | null>} the problem, in a few words; null if there is none.
 */
export function checkKernels(library, { ggmlBase, ggml }, limitMs = LIMIT_MS) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [SCRIPT, ggmlBase, ggml, library], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let found = ''
    let errors = ''
    const timer = setTimeout(() => {
      giveUp(child)
      conclude(() => `the check did not end within ${limitMs / 1000} s`)
    }, limitMs)
    // The exit status after the answer does not matter: Node unloads libraries whose threads may still run.
    const conclude = (otherwise) => {
      clearTimeout(timer)
      const answer = found.trim()
      if (answer === '') return resolve(otherwise())
      resolve(answer === 'right' ? null : answer)
    }
    child.stdout.on('data', (chunk) => {
      found += chunk
    })
    child.stderr.on('data', (chunk) => {
      errors += chunk
    })
    child.on('error', (error) => conclude(() => `the check does not start (${error.message})`))
    child.on('close', (code, signal) =>
      conclude(() => {
        const cause = CAUSE.exec(errors)
        if (cause !== null) return cause[3] ?? cause[1]
        const thrown = /^\w*Error: (.*)$/m.exec(errors)?.[1] ?? `exit code ${code}`
        return signal === null ? `the check failed: ${thrown}` : `they crash (${signal})`
      }),
    )
  })
}
