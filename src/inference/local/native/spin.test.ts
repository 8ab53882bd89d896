import { describe, expect, test } from 'vitest'
import { loadNativeLibraries } from './libraries.ts'
import { locateNativeLibraries } from './native-paths.ts'
import { limitSpinning } from './spin.ts'

describe('the spin count', () => {
  test('depends on the duration of an iteration', () => {
    const [slow, fast, unknown]: NodeJS.ProcessEnv[] = [{}, {}, {}]
    limitSpinning(50, undefined, slow)
    limitSpinning(12.5, undefined, fast)
    limitSpinning(null, undefined, unknown)
    expect([slow, fast, unknown].map((env) => env?.GOMP_SPINCOUNT)).toEqual(['500', '2000', '1000'])
  })

  test('stays as the operator has set it', () => {
    const env = { GOMP_SPINCOUNT: '5' }
    limitSpinning(50, undefined, env)
    expect(env.GOMP_SPINCOUNT).toBe('5')
  })

  test.runIf(locateNativeLibraries().mtmd !== null)('is measured on this machine', () => {
    delete process.env.GOMP_SPINCOUNT
    loadNativeLibraries(locateNativeLibraries())
    // An iteration takes 1 to 200 ns on every known processor.
    expect(Number(process.env.GOMP_SPINCOUNT)).toBeGreaterThanOrEqual(125)
    expect(Number(process.env.GOMP_SPINCOUNT)).toBeLessThanOrEqual(25_000)
  })
})
