import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { CARD } from '../../../../test/support/local-engine.ts'
import { loadLocalCard } from '../../../models/card.ts'
import { loadNativeLibraries, type NativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { LoadedModel } from '../scheduler/loaded-model.ts'
import { Fences } from './fences.ts'
import { ReadContext } from './read-context.ts'
import { type ReadLimits, readLimits } from './read-limits.ts'
import { keepQuestionsApart } from './shared-calls.ts'

let libraries: NativeLibraries
let loaded: LoadedModel
let limits: ReadLimits
beforeAll(async () => {
  const card = await loadLocalCard(CARD)
  libraries = loadNativeLibraries(locateNativeLibraries())
  loaded = new LoadedModel(libraries, {
    model: `${card.directory}/${card.engine.model}`,
    projector: null,
    cells: 2048,
    maxSequences: 4,
    printedTokens: [],
    repetition: null,
    speculation: false,
    image: null,
    threads: 1,
    maxWaiting: 10,
    prefixCacheBytes: 0,
    encoderCacheBytes: 0,
    seed: 1,
  })
  limits = readLimits(loaded)
})
afterAll(() => loaded?.close())

function probe(): boolean {
  const context = new ReadContext(loaded, limits, ReadContext.cellsFor(64, 0, limits))
  try {
    context.shareCalls()
    return keepQuestionsApart(context, limits, loaded.model.vocabularySize)
  } finally {
    context.close()
  }
}

test('our own kernels keep questions of one call apart', () => {
  expect(limits.mayShare).toBe(libraries.kernels !== null)
  if (limits.mayShare) expect(probe()).toBe(true)
})

test('without fences they do not, which is found out', () => {
  vi.spyOn(Fences.prototype, 'between').mockImplementation(() => {})
  if (limits.mayShare) expect(probe()).toBe(false)
})
