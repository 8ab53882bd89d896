import { afterAll, beforeAll, expect, test } from 'vitest'
import { shippedSettings } from '../../../../../test/support/shipped-settings.ts'
import { loadNativeLibraries, type NativeLibraries } from '../../native/libraries.ts'
import { locateNativeLibraries } from '../../native/native-paths.ts'
import { LoadedModel } from '../loaded-model.ts'
import { isBatchInvariant } from './batch-invariance.ts'
import { ScoringContext } from './scoring-context.ts'
import { type ScoringLimits, scoringLimits } from './scoring-limits.ts'

let libraries: NativeLibraries
let loaded: LoadedModel
let limits: ScoringLimits
beforeAll(async () => {
  libraries = loadNativeLibraries(locateNativeLibraries())
  loaded = new LoadedModel(libraries, await shippedSettings())
  limits = scoringLimits(loaded)
})
afterAll(() => loaded?.close())

function probe(): boolean {
  const context = new ScoringContext(loaded, limits, ScoringContext.cellsFor(64, 0, limits))
  try {
    return isBatchInvariant(context, limits, loaded.model.vocabularySize)
  } finally {
    context.close()
  }
}

test('our own kernels keep questions of one call apart', () => {
  expect(limits.mayShare).toBe(libraries.kernels !== null)
  if (limits.mayShare) expect(probe()).toBe(true)
})
