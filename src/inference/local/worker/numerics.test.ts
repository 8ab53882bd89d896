import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OffloadReport } from '../../contract/offload.ts'
import type { NativePaths } from '../native/native-paths.ts'
import type { EngineSettings } from '../protocol.ts'
import { type Computing, numericsOf } from './numerics.ts'

const gpu = { wanted: 'auto', libraries: [{ name: 'cuda', path: '/b/cuda-1/x' }], missing: null } as const
const paths = { mtmd: '/a/mtmd-1/x', kernels: '/k/cpu-1/x', directory: '/p/bins/linux-x64', gpu }
const onCpu: OffloadReport = { devices: [], layers: 0, ofLayers: 9, encoder: 'CPU', problem: null }
const onGpu: OffloadReport = {
  ...onCpu,
  devices: [{ name: 'CUDA0', description: 'a GPU', memoryBytes: 1 }],
  layers: 9,
  encoder: 'CUDA0',
}

let folder: string
let model: string
const bytes = Buffer.alloc(3 * 2 ** 20, 1)
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-numerics-'))
  model = join(folder, 'model')
  await writeFile(model, bytes)
})
afterAll(() => rm(folder, { recursive: true }))

interface Changes {
  readonly settings?: Partial<EngineSettings>
  readonly paths?: Partial<NativePaths>
  readonly computesProducts?: boolean | null
  /** Whether all that the kernels have computed so far was invariant. */
  readonly wasInvariant?: boolean
  readonly offload?: OffloadReport
  readonly features?: readonly string[]
}

function of(changes: Changes = {}) {
  const { computesProducts = true, wasInvariant = true, offload = onCpu } = changes
  const { features = ['AVX2'] } = changes
  const image = { pixelsPerToken: 28, minTokens: 4, maxTokens: 64 }
  const origin = { version: '1.2.3', chatTemplate: '{{ messages }}' }
  const settings = { model, projector: model, cells: 100, image, threads: 1, seed: 1, origin } as EngineSettings
  const libraries = {
    llama: { version: () => '0.4.0-dev' },
    kernels: computesProducts === null ? null : { computesProducts, isInvariant: () => wasInvariant },
  } as unknown as Computing['libraries']
  return numericsOf(
    { ...settings, ...changes.settings },
    { ...paths, ...changes.paths },
    { libraries, features, loaded: { offload } },
  )
}

test('the parts name everything that the fingerprint is a hash of', () => {
  const { fingerprint, parts } = of({ offload: onGpu })
  expect(fingerprint).toMatch(/^fp_[0-9a-f]{12}$/)
  expect(parts).toEqual({
    weights: expect.stringMatching(/^[0-9a-f]{12}$/),
    encoder: `${parts.weights}, mtmd-1`,
    template: expect.stringMatching(/^[0-9a-f]{12}$/),
    release: 'Lookout 1.2.3, llama.cpp 0.4.0',
    kernels: 'cpu-1: AVX2',
    devices: 'CUDA0 (a GPU), cuda (cuda-1), 9 of 9 layers, encoder on CUDA0',
    settings: 'f16 keys and values, 100 tokens of context, images of 4 to 64 tokens',
  })
  expect(of({ settings: { projector: null } }).parts).not.toHaveProperty('encoder')
  expect(of({ computesProducts: null }).parts.kernels).toBe('prebuilt (linux-x64): AVX2')
})

describe('the fingerprint', () => {
  test.each<[string, Changes]>([
    ['another version', { settings: { origin: { version: '1.2.4', chatTemplate: '{{ messages }}' } } }],
    ['another chat template', { settings: { origin: { version: '1.2.3', chatTemplate: '' } } }],
    ['other kernels', { paths: { kernels: '/k/cpu-2/x' } }],
    ['another encoder library', { paths: { mtmd: '/a/mtmd-2/x' } }],
    ['no encoder', { settings: { projector: null } }],
    ['prebuilt kernels', { computesProducts: null }],
    ['another processor', { features: ['AVX2', 'AVX512'] }],
    ['a GPU', { offload: onGpu }],
    ['KV of another type', { settings: { kvType: 'q8_0' } }],
    ['a larger context', { settings: { cells: 101 } }],
    ['larger images', { settings: { image: { pixelsPerToken: 28, minTokens: 4, maxTokens: 65 } } }],
  ])('is another with %s', (_what, changes) => {
    expect(of(changes).fingerprint).not.toBe(of().fingerprint)
  })

  test.each<[string, Changes]>([
    ['threads', { settings: { threads: 8 } }],
    ['seeds', { settings: { seed: 2 } }],
    ['queues', { settings: { maxWaiting: 3, maxSequences: 9, prefixCacheBytes: 1 } }],
    ['GPU backends that compute nothing', { paths: { gpu: { ...gpu, libraries: [] } } }],
  ])('is the same with other %s', (_what, changes) => {
    expect(of(changes).fingerprint).toBe(of().fingerprint)
  })

  test('differs with other weights in any file, and is the same for a copy', async () => {
    const [second, copy] = [join(folder, 'second'), join(folder, 'copy')]
    const withSecond = { settings: { modelParts: [model, second] } }
    await writeFile(copy, bytes)
    await utimes(copy, 1e9, 1e9)
    expect(of({ settings: { model: copy } }).fingerprint).toBe(of().fingerprint)
    await writeFile(second, bytes)
    const before = of(withSecond).fingerprint
    expect(before).not.toBe(of().fingerprint)
    await writeFile(second, Buffer.from(bytes).fill(2, 2.5 * 2 ** 20))
    expect(of(withSecond).fingerprint).not.toBe(before)
  })
})

test.each<[boolean, string, Changes]>([
  [true, 'kernels of ours on a CPU', {}],
  [false, 'prebuilt kernels', { computesProducts: null }],
  [false, 'kernels without products of ours', { computesProducts: false }],
  [false, 'what ggml computes', { wasInvariant: false }],
  [false, 'a GPU', { offload: onGpu }],
])('%s: the same bits in any company are promised for %s', (isInvariant, _what, changes) => {
  expect(of(changes).isInvariant).toBe(isInvariant)
})
