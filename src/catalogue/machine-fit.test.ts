import { expect, test } from 'vitest'
import type { CatalogueEntry } from './catalogue-schema.ts'
import { rankForMachine } from './machine-fit.ts'
import type { MachineSpeed } from './speed-estimate.ts'

const GB = 1e9
/** Two cores of a server, or a laptop of some years ago. */
const SLOW: MachineSpeed = { bytesPerSecond: 15 * GB, multiplyAddsPerSecond: 300e9 }
/** A desktop with fast memory. */
const FAST: MachineSpeed = { bytesPerSecond: 90 * GB, multiplyAddsPerSecond: 2000e9 }

/** @param billions of parameters: all, and those that a token uses. */
function entry(name: string, billions: readonly [number, number?], fields: Partial<CatalogueEntry> = {}) {
  const [all, active = all] = billions
  const file = (bytesPerParameter: number) => ({
    path: `${name}.gguf`,
    bytes: Math.round(all * bytesPerParameter * GB),
  })
  return {
    name,
    uses: ['general'],
    memoryClass: 8,
    quantisations: [
      { name: 'Q3_K_M', model: file(0.5) },
      { name: 'Q4_K_M', model: file(0.62) },
      { name: 'Q8_0', model: file(1.07) },
    ],
    defaultQuantisation: 'Q4_K_M',
    projector: { path: 'mmproj.gguf', bytes: 0.6 * GB },
    shape: { parameters: all * GB, activeParameters: active * GB, kvBytesPerToken: 147_456 },
    contextTokens: 262_144,
    ...fields,
  } as CatalogueEntry
}

const MODELS = [
  entry('reader-1b', [1], { uses: ['documents'] }),
  entry('two', [2], { memoryClass: 6 }),
  entry('four', [4]),
  entry('eight', [8], { memoryClass: 16 }),
  entry('dense-27b', [27], { memoryClass: 32 }),
  entry('mixture-30b', [30, 3], { memoryClass: 32 }),
]

function ranked(gigabytes: number, speed: MachineSpeed | null) {
  return rankForMachine({ checked: '2026-11-26', models: MODELS }, { available: gigabytes * GB, speed })
}
/** The models that fit or fit tightly, with their quantisations. */
function fitting(gigabytes: number, speed: MachineSpeed | null): string[] {
  const fits = ranked(gigabytes, speed).filter(({ fits }) => fits !== 'no')
  return fits.map(({ entry, quantisation, fits }) => `${entry.name} ${quantisation}${fits === 'tight' ? ' tight' : ''}`)
}

test('what does not fit comes last, the smallest first, and nothing is offered below Q4_K_M', () => {
  expect(fitting(4, SLOW)).toEqual([])
  expect(ranked(4, SLOW).map(({ entry, quantisation, fits }) => [entry.name, quantisation, fits])).toEqual(
    ['reader-1b', 'two', 'four', 'eight', 'dense-27b', 'mixture-30b'].map((name) => [name, 'Q4_K_M', 'no']),
  )
})

test('a model for general use comes before one of one task, and the larger class first, even where it fits tightly', () => {
  expect(fitting(8, SLOW)).toEqual(['four Q4_K_M tight', 'two Q4_K_M', 'reader-1b Q8_0'])
})

test('the largest that answers at a usable speed is the best, in no finer quantisation than that allows', () => {
  expect(fitting(16, SLOW)).toEqual(['four Q4_K_M', 'two Q8_0', 'eight Q4_K_M', 'reader-1b Q8_0'])
  expect(fitting(16, FAST)).toEqual(['eight Q4_K_M', 'four Q8_0', 'two Q8_0', 'reader-1b Q8_0'])
})

test('a large machine gets what its speed allows: a mixture of experts where a dense model is too slow', () => {
  const [dense, mixture] = ['dense-27b Q4_K_M tight', 'mixture-30b Q4_K_M tight']
  const slow = ['four Q4_K_M', 'two Q8_0', 'eight Q4_K_M']
  expect(fitting(24, SLOW)).toEqual([...slow, dense, 'reader-1b Q8_0', mixture])
  const fast = ['eight Q8_0', 'four Q8_0', 'two Q8_0', 'reader-1b Q8_0']
  expect(fitting(24, FAST)).toEqual([dense, ...fast, mixture])
  expect(fitting(64, SLOW).slice(0, 2)).toEqual(['mixture-30b Q4_K_M', 'four Q4_K_M'])
  expect(fitting(64, FAST).slice(0, 2)).toEqual(['dense-27b Q4_K_M', 'mixture-30b Q8_0'])
})

test('what a busy machine does decides no quantisation', () => {
  expect(fitting(16, { ...SLOW, isBusy: true })).toContain('four Q8_0')
})

test('without a speed it goes by the memory', () => {
  expect(fitting(64, null).slice(0, 3)).toEqual(['dense-27b Q8_0', 'mixture-30b Q8_0', 'eight Q8_0'])
  expect(ranked(64, null)[0]!.speed).toBeNull()
})

test('counts the memory of files, context, encoder and process, and estimates the speed from what a token reads', () => {
  const [four] = ranked(16, SLOW)
  expect(four!.bytes).toBe(3.08 * GB)
  // 8,192 tokens of context take 1.2 GB, the encoder's largest image nearly 1.
  expect(four!.memory / GB).toBeCloseTo(5.91, 1)
  expect(four!.speed!.tokensPerSecond).toBeCloseTo(15 / 2.48)
  expect(four!.speed!.promptTokensPerSecond).toBeCloseTo(75)
  const mixture = ranked(64, SLOW)[0]!
  expect(mixture.entry.name).toBe('mixture-30b')
  expect(mixture.speed!.tokensPerSecond).toBeCloseTo(15 / 1.86)
})
