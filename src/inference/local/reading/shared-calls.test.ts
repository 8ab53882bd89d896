import { afterAll, beforeAll, expect, test } from 'vitest'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import { loadNativeLibraries, type NativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { LoadedModel } from '../scheduler/loaded-model.ts'
import { ReadContext } from './read-context.ts'
import { type ReadLimits, readLimits } from './read-limits.ts'
import { keepQuestionsApart } from './shared-calls.ts'

let libraries: NativeLibraries
let loaded: LoadedModel
let limits: ReadLimits
beforeAll(async () => {
  libraries = loadNativeLibraries(locateNativeLibraries())
  loaded = new LoadedModel(libraries, await shippedSettings())
  limits = readLimits(loaded)
})
afterAll(() => loaded?.close())

function probe(): boolean {
  const context = new ReadContext(loaded, limits, ReadContext.cellsFor(64, 0, limits))
  try {
    return keepQuestionsApart(context, limits, loaded.model.vocabularySize)
  } finally {
    context.close()
  }
}

test('our own kernels keep questions of one call apart', () => {
  expect(limits.mayShare).toBe(libraries.kernels !== null)
  if (limits.mayShare) expect(probe()).toBe(true)
})
