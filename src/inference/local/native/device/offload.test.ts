import fc from 'fast-check'
import koffi from 'koffi'
import { describe, expect, test } from 'vitest'
import type { GpuSettings } from '../../../contract/offload.ts'
import { computeOf, usefulThreads } from '../compute.ts'
import type { Device, Devices } from './devices.ts'
import { bytesOfCpu, planOffload, reportOf, withHint } from './offload.ts'

const GIB = 2 ** 30
const weights = { width: 0, layers: 10, modelBytes: 11 * GIB, encoderBytes: GIB, kvBytes: 0, scratchBytes: 0 }
const settings: GpuSettings = {
  layers: 'auto',
  splitMode: 'layer',
  mainDevice: 0,
  tensorSplit: null,
  devices: null,
  encoder: true,
  weights,
}

function device(number: number, freeBytes: number): Device {
  const name = `CUDA${number}`
  return {
    handle: BigInt(number + 1),
    bufferType: BigInt(number + 100),
    name,
    description: 'a card',
    memoryBytes: freeBytes,
    freeBytes,
  }
}
const having = (...list: readonly Device[]): Devices => ({ list, problem: null, isOff: false })
const NONE = having()
const TWO = having(device(0, 24 * GIB), device(1, 24 * GIB))

/** The model parameters that name the devices. */
const told = (devices: Devices, change: Partial<GpuSettings> = {}) => {
  const { modelParams } = planOffload(devices, { ...settings, ...change })
  return { ...modelParams, devices: [...(modelParams.devices as BigUint64Array)] }
}

test('without devices, or with layers of 0, the CPU computes everything', () => {
  expect(told(NONE)).toEqual({ devices: [0n], n_gpu_layers: 0 })
  expect(told(TWO, { layers: 0 })).toEqual({ devices: [0n], n_gpu_layers: 0 })
  expect(planOffload(NONE, settings)).toMatchObject({ devices: [], layers: 0, encoder: null, problem: null })
})

test('all layers that fit are on the devices, the encoders on the main one', () => {
  expect(told(TWO)).toEqual({ devices: [1n, 2n, 0n], n_gpu_layers: 11, split_mode: 1, main_gpu: 0, tensor_split: null })
  const { encoder, problem } = planOffload(TWO, { ...settings, mainDevice: 1 })
  expect([encoder?.name, problem]).toEqual(['CUDA1', null])
  expect(planOffload(TWO, { ...settings, encoder: false }).encoder).toBeNull()
})

test('one CUDA device that computes all layers reads the token embeddings too', () => {
  const overrides = (devices: Devices, width: number, change: Partial<GpuSettings> = {}) =>
    planOffload(devices, { ...settings, ...change, weights: { ...weights, width } }).modelParams
      .tensor_buft_overrides as BigUint64Array | undefined
  const ONE = having(device(0, 24 * GIB))
  const [pattern, bufferType, ...end] = overrides(ONE, 2048)!
  expect(koffi.decode(pattern!, 'char', 20)).toBe('^token_embd\\.weight$')
  expect([bufferType, ...end]).toEqual([100n, 0n, 0n])
  // Where the CPU has a part, two devices share the model, or the rows may be of a type that the device does not read.
  expect(overrides(ONE, 2048, { layers: 5 })).toBeUndefined()
  expect(overrides(TWO, 2048)).toBeUndefined()
  expect(overrides(TWO, 2048, { splitMode: 'none' })).toBeDefined()
  expect(overrides(ONE, 640)).toBeUndefined()
  expect(overrides(having({ ...device(0, 24 * GIB), name: 'Vulkan0' }), 2048)).toBeUndefined()
})

test('a model larger than the memory of the devices is shared with the CPU, with a warning', () => {
  const offload = planOffload(having(device(0, 8 * GIB)), settings)
  expect(offload.layers).toBe(6)
  expect(offload.problem).toBe(
    'Only 6 of 11 layers fit into the memory of CUDA0 (a card); the CPU computes the others.',
  )
  expect(bytesOfCpu(offload, weights)).toBeCloseTo(5 * GIB)
  expect(planOffload(having(device(0, GIB / 2)), settings)).toMatchObject({
    devices: [],
    problem: 'The model does not fit into the memory of CUDA0 (a card); it runs on the CPU.',
  })
})

test('no device gets more layers than fit', () => {
  const bytes = fc.integer({ min: 1, max: 100 * GIB })
  fc.assert(
    fc.property(
      bytes,
      bytes,
      fc.integer({ min: 0, max: GIB }),
      fc.integer({ min: 1, max: 100 }),
      (free, model, kv, layers) => {
        const sizes = { width: 0, layers, modelBytes: model, kvBytes: kv, encoderBytes: 0, scratchBytes: 0 }
        const plan = planOffload(having(device(0, free)), { ...settings, weights: sizes })
        expect(plan.layers).toBeLessThanOrEqual(layers + 1)
        expect((plan.layers * (model + kv)) / (layers + 1)).toBeLessThanOrEqual(free)
      },
    ),
  )
})

test('the card chooses devices by name, and the split between them', () => {
  const change = {
    devices: ['CUDA1', 'CUDA0'],
    splitMode: 'row',
    mainDevice: 1,
    tensorSplit: [3, 1],
    layers: 4,
  } as const
  const { tensor_split: split, ...rest }: Record<string, unknown> = told(TWO, change)
  expect(rest).toEqual({ devices: [2n, 1n, 0n], n_gpu_layers: 4, split_mode: 2, main_gpu: 1 })
  expect([...(split as Float32Array)]).toEqual([3, 1, ...Array(14).fill(0)])
  const { devices, encoder } = planOffload(TWO, { ...settings, splitMode: 'none', mainDevice: 1 })
  expect([devices.map(({ name }) => name), encoder?.name]).toEqual([['CUDA1'], 'CUDA1'])
})

describe('a card that asks for missing devices', () => {
  const plan = (devices: Devices, change: Partial<GpuSettings>) => () =>
    planOffload(devices, { ...settings, ...change })

  test('is rejected if it names them', () => {
    const both = 'CUDA0 (a card), CUDA1 (a card)'
    expect(plan(TWO, { devices: ['CUDA2'] })).toThrow(`engine.gpu.devices names CUDA2, but the devices are: ${both}.`)
    expect(plan(TWO, { mainDevice: 2 })).toThrow(`engine.gpu.mainDevice is 2, but there are 2 devices: ${both}.`)
    expect(plan(TWO, { tensorSplit: [1] })).toThrow('engine.gpu.tensorSplit has 1 numbers, but there are 2 devices')
  })

  test('runs on the CPU without a GPU, with a warning unless the settings ask for the CPU', () => {
    expect(plan(NONE, { layers: 4 })().problem).toBe(
      'engine.gpu.layers is 4, but there is no GPU; the model runs on the CPU.',
    )
    expect(plan({ ...NONE, isOff: true }, { layers: 4 })().problem).toBeNull()
    expect(plan({ ...NONE, problem: 'The cuda backend finds no device.' }, {})().problem).toBe(
      'The cuda backend finds no device. The model runs on the CPU.',
    )
  })
})

test('an allocation error says how to use less of a device', () => {
  const allocate = () => {
    throw new Error('Cannot load the model m.gguf.')
  }
  expect(() => withHint(planOffload(NONE, settings), allocate)).toThrow(/^Cannot load the model m\.gguf\.$/)
  expect(() => withHint(planOffload(having(device(0, 24 * GIB)), settings), allocate)).toThrow(
    /^Cannot load the model m\.gguf\. 11 of 11 layers were to go on CUDA0 \(a card\)\. .*engine\.gpu\.layers/,
  )
})

test('the report names the device of the encoders', () => {
  const on = planOffload(TWO, settings)
  expect(reportOf(on, true)).toMatchObject({ layers: 11, ofLayers: 11, encoder: 'CUDA0' })
  expect(reportOf(on, false).encoder).toBeNull()
  expect(reportOf(planOffload(NONE, settings), true).encoder).toBe('CPU')
})

test('only a model that is entirely on devices counts as theirs', () => {
  expect(computeOf({ layers: 11, ofLayers: 11 }, false)).toMatchObject({ tileRows: null, compilesAtFirst: true })
  expect(computeOf({ layers: 10, ofLayers: 11 }, false)).toMatchObject({ tileRows: 64, compilesAtFirst: true })
  expect(computeOf({ layers: 0, ofLayers: 11 }, true)).toMatchObject({ tileRows: null, compilesAtFirst: false })
  expect(usefulThreads(0, 8, 'tokens')).toBe(1)
  expect(usefulThreads(100 * 2 ** 20, 8, 'tokens')).toBe(4)
  expect(usefulThreads(100 * GIB, 8, 'tokens')).toBe(8)
  expect(usefulThreads(5 * 2 ** 20, 8, 'media')).toBe(3)
})
