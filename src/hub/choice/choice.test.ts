import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readCatalogue } from '../../catalogue/catalogue.ts'
import { mismatch } from '../../families/gguf.ts'
import type { GgufValue } from '../../models/read/gguf-value.ts'
import { folderName, isPlainSubpath } from '../cache/safe-names.ts'
import { joined, missingOf, totalOf } from '../download/byte-ranges.ts'
import { readHubSettings } from '../hub-settings.ts'
import { formatBytes, formatSeconds } from '../units.ts'
import { askedFor, candidatesOf } from './gguf-names.ts'
import { estimateMemory, type Metadata } from './memory-estimate.ts'
import { readAddress } from './model-address.ts'
import { projectorReason, projectorsFor } from './projector-choice.ts'
import { checkMemory, chooseByMemory } from './quant-choice.ts'

const GIB = 2 ** 30
const file = (path: string, size = 1) => ({ path, size, blob: null })
const files = (...paths: string[]) => paths.map((path, index) => file(path, index + 1))
const labels = (...paths: string[]) => candidatesOf(files(...paths)).map(({ label }) => label)

describe('files of a repository', () => {
  test('are models by their quantisation; encoders, drafts and matrices are none', () => {
    expect(
      labels(
        'Qwen3-VL-4B-Instruct-Q4_K_M.gguf',
        'Qwen3-VL-4B-Instruct-UD-IQ2_XXS.gguf',
        'Qwen3VL-4B-Instruct-F16.gguf',
        'gemma-3-4b-it.Q8_0.gguf',
        'gpt-oss-20b-mxfp4.gguf',
        'ggml-model.gguf',
        'mmproj-Qwen3-VL-F16.gguf',
        'Qwen3-VL.mmproj-Q8_0.gguf',
        'mtp-Qwen3-Q8_0.gguf',
        'eagle3-Qwen3-Q8_0.gguf',
        'imatrix.gguf',
        'README.md',
      ),
    ).toEqual(['Q4_K_M', 'UD-IQ2_XXS', 'F16', 'Q8_0', 'mxfp4', 'ggml-model'])
  })

  test('in parts are one model, if all of them are there', () => {
    const parts = ['a/big-Q8_0-00001-of-00002.gguf', 'a/big-Q8_0-00002-of-00002.gguf', 'b-Q4_0-00001-of-00002.gguf']
    expect(candidatesOf(files(...parts))).toEqual([
      { label: 'Q8_0', quantisation: 'Q8_0', bytes: 3, files: files(...parts.slice(0, 2)) },
    ])
  })

  test('of several models with one quantisation are told apart by their names', () => {
    expect(labels('small-Q8_0.gguf', 'large-Q8_0.gguf', 'small-Q4_0.gguf')).toEqual([
      'small-Q8_0',
      'large-Q8_0',
      'Q4_0',
    ])
  })

  test('are found by label, path or, as in llama.cpp, a part of the path', () => {
    const all = candidatesOf(files('x-UD-Q4_K_XL.gguf', 'x-Q4_K_M.gguf', 'sub/y-tiny-v2.gguf'))
    const asked = (text: string) => askedFor(all, text).map(({ label }) => label)
    expect(asked('q4_k_m')).toEqual(['Q4_K_M'])
    expect(asked('Q4_K_XL')).toEqual(['UD-Q4_K_XL'])
    expect(asked('x-Q4_K_M.gguf')).toEqual(['Q4_K_M'])
    expect(asked('tiny')).toEqual(['sub/y-tiny-v2'])
    expect(asked('Q4_K')).toEqual([])
  })
})

test('a projector lies around the model; nearest first, then by precision', () => {
  const all = files(
    'mmproj-Q8_0.gguf',
    'mmproj-BF16.gguf',
    'mmproj-F16.gguf',
    'a/mmproj-F32.gguf',
    'a/b/mmproj-x.gguf',
    'c/mmproj-F16.gguf',
  )
  const chosen = (model: string) => projectorsFor(model, all).map(({ path }) => path)
  expect(chosen('m.gguf')).toEqual(['mmproj-F16.gguf', 'mmproj-BF16.gguf', 'mmproj-Q8_0.gguf'])
  expect(chosen('a/m.gguf')[0]).toBe('a/mmproj-F32.gguf')
  expect(chosen('ab/m.gguf')[0]).toBe('mmproj-F16.gguf')
  const why = (model: string) => projectorReason(projectorsFor(model, all)[0]!, projectorsFor(model, all), model)
  expect([why('m.gguf'), why('a/m.gguf'), why('a/z/m.gguf')]).toEqual([
    'F16 is preferred to BF16, Q8_0',
    "it lies in the model's folder",
    "it lies nearest to the model's folder",
  ])
})

test('an encoder in a folder for its kind belongs to the models around that, and is none', () => {
  const all = files(
    'MiniCPM-o-4_5-Q4_K_M.gguf',
    'vision/MiniCPM-o-4_5-vision-F16.gguf',
    'audio/MiniCPM-o-4_5-audio-F16.gguf',
    'tts/MiniCPM-o-4_5-tts-F16.gguf',
    'token2wav-gguf/flow_matching.gguf',
  )
  expect(candidatesOf(all).map(({ label }) => label)).toEqual(['Q4_K_M'])
  expect(projectorsFor(all[0]!.path, all).map(({ path }) => path)).toEqual(['vision/MiniCPM-o-4_5-vision-F16.gguf'])
  // A folder for models that see holds models.
  expect(labels('vision/some-model-Q4_K_M.gguf')).toEqual(['Q4_K_M'])
})

describe('without a name, the memory decides', () => {
  const estimated = ['Q2_K', 'Q3_K_M', 'Q4_K_M', 'Q6_K', 'Q8_0', 'F16'].map((quant, index) => ({
    candidate: candidatesOf([file(`m-${quant}.gguf`, index + 1)])[0]!,
    memory: (index + 1) * GIB,
  }))
  const chosen = (available: number, among = estimated) => chooseByMemory(among, available * GIB).candidate.label

  test('the largest in 60 % of it, at least Q4_K_M, and quantised', () => {
    expect([1, 4, 5, 6.7, 8.4, 100].map((available) => chosen(available))).toEqual([
      ...['Q4_K_M', 'Q4_K_M', 'Q4_K_M', 'Q6_K', 'Q8_0', 'Q8_0'],
    ])
    expect(chosen(100, estimated.slice(0, 2))).toBe('Q3_K_M')
    expect(chosen(100, estimated.slice(5))).toBe('F16')
  })

  test('one that does not fit is refused with the next smaller one, or warned of when it was named', () => {
    const check = (available: number, isAsked: boolean) =>
      checkMemory('a/b', estimated[2]!, estimated, { available: available * GIB, isAsked })
    expect(check(3, false)).toBe(null)
    const message = 'a/b:Q4_K_M needs about 3.0 GiB of memory, and 2.5 GiB are available; '
    expect(() => check(2.5, false)).toThrow(`${message}Q3_K_M needs 2.0 GiB: lookout pull a/b:Q3_K_M`)
    expect(check(2.5, true)).toBe(
      `${message}it will be slow, or not load (Q3_K_M needs 2.0 GiB: lookout pull a/b:Q3_K_M)`,
    )
    expect(() => check(0.5, false)).toThrow('no smaller choice fits')
  })
})

describe('headers', () => {
  const header = (fields: Readonly<Record<string, GgufValue>>): Metadata => new Map(Object.entries(fields))
  const language = (fields: Readonly<Record<string, GgufValue>> = {}) =>
    header({
      'general.architecture': 'gemma3',
      'gemma3.context_length': 131_072,
      'gemma3.block_count': 24,
      'gemma3.embedding_length': 2048,
      'gemma3.attention.head_count': 8,
      'gemma3.attention.head_count_kv': 4,
      'gemma3.attention.key_length': 256,
      'gemma3.attention.value_length': 256,
      'gemma3.vocab_size': 262_144,
      ...fields,
    })

  test('give the memory: files, cache, batch, and the process itself', () => {
    const need = (fields = {}) => estimateMemory({ bytes: GIB, language: language(fields), encoder: null })
    const cell = 24 * 4 * 512 * 2
    const fixed = GIB + 512 * (262_144 + 4 * 2048) * 4 + 300 * 2 ** 20
    expect(need()).toBe(fixed + 8192 * cell)
    expect(need({ 'gemma3.context_length': 2048 })).toBe(fixed + 2048 * cell)
    const { encoder, bytes } = { encoder: null, bytes: GIB }
    const inEightBits = estimateMemory({ bytes, language: language(), encoder, kvType: 'q8_0' })
    expect(inEightBits).toBe(fixed + (8192 * cell * 34) / 64)
    // The engine keeps the cells of layers with a sliding window too.
    expect(need({ 'gemma3.attention.sliding_window': 512 })).toBe(fixed + 8192 * cell)
  })

  test('tell an encoder of another model', () => {
    const encoder = (dimension: number, type = 'gemma3') =>
      header({
        'clip.has_vision_encoder': true,
        'clip.vision.projector_type': type,
        'clip.vision.projection_dim': dimension,
      })
    const between = (encoder: Metadata, model = language()) => mismatch({ language: model, encoder })
    expect(between(encoder(2048))).toBe(null)
    expect(between(encoder(2560))).toBe('it makes vectors of 2560 numbers, and the language model takes 2048')
    // The number means something else there, or nothing is known of the model.
    expect(between(encoder(768, 'mlp'))).toBe(null)
    expect(between(encoder(5), header({}))).toBe(null)
  })
})

test('ranges: what is done and what is missing make the whole', () => {
  const ranges = fc.array(fc.tuple(fc.nat(200), fc.nat(200)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const))
  fc.assert(
    fc.property(ranges, fc.integer({ min: 1, max: 50 }), (done, most) => {
      const missing = missingOf(done, 200, most)
      expect(joined([...done, ...missing])).toEqual([[0, 200]])
      expect(totalOf(done) + totalOf(missing)).toBe(200)
      expect(missing.every(([from, to]) => to > from && to - from <= most)).toBe(true)
    }),
  )
})

test('names from outside stay in their folder', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom('..', '.', '', '/', '\\', 'a', 'b.gguf', '\0')), (pieces) => {
      const path = pieces.join('/')
      const isSafe = isPlainSubpath(path)
      expect(isSafe).toBe(pieces.length > 0 && pieces.every((piece) => piece === 'a' || piece === 'b.gguf'))
    }),
  )
  expect(isPlainSubpath('C:/x')).toBe(false)
  expect(['user/repo:Q4_K_M', '../../x', 'a b', ''].map(folderName)).toEqual([
    'user--repo--Q4_K_M',
    '--..--x',
    'a_b',
    'model',
  ])
})

test('addresses of models', async () => {
  const read = (text: string) => readAddress(text, new URL('https://hub.example/'))
  const hub = (wanted: string | null, revision = 'main') => ({
    kind: 'repository',
    id: 'user/repo-GGUF',
    wanted,
    revision,
    entry: null,
    isShort: false,
  })
  expect(await read('user/repo-GGUF')).toEqual(hub(null))
  expect(await read('hf://user/repo-GGUF:Q8_0')).toEqual(hub('Q8_0'))
  expect(await read('https://huggingface.co/user/repo-GGUF')).toEqual(hub(null))
  expect(await read('https://hub.example/user/repo-GGUF/resolve/v2/a/b.gguf?download=true')).toEqual(
    hub('a/b.gguf', 'v2'),
  )
  const page = (path: string) => read(`https://huggingface.co/user/repo-GGUF/${path}`)
  expect(await page('tree/main')).toEqual(hub(null))
  expect(await page('tree/feature%2Fq8/')).toEqual(hub(null, 'feature/q8'))
  expect(await page('blob/v1%2Fx/a%20b/c.gguf')).toEqual(hub('a b/c.gguf', 'v1/x'))
  for (const pr of ['refs%2Fpr%2F1', 'refs/pr/1'])
    expect(await page(`blob/${pr}/x.gguf`)).toEqual(hub('x.gguf', 'refs/pr/1'))
  expect(await read('https://example.org/x/y.gguf')).toEqual({
    kind: 'file',
    url: new URL('https://example.org/x/y.gguf'),
  })
  for (const wrong of ['repo', 'a/b/c', '../b', 'a/..', 'a/b:../c', 'https://example.org/x', 'https://', 'a/b:', '']) {
    await expect(read(wrong), wrong).rejects.toThrow(/expected a name that lookout pull lists, user\/repository/)
  }
})

test('names of the catalogue, in any case, and its repositories', async () => {
  const read = (text: string) => readAddress(text, new URL('https://hub.example/'))
  const { models } = await readCatalogue()
  for (const entry of models) {
    const address = { kind: 'repository', id: entry.repository, revision: 'main', entry }
    expect(await read(entry.name)).toEqual({ ...address, wanted: null, isShort: true })
    expect(await read(`${entry.name.toUpperCase()}:q8_0`)).toEqual({ ...address, wanted: 'q8_0', isShort: true })
  }
  expect(await read('hf.co/qwen/qwen3-vl-4b-instruct-gguf:Q8_0')).toMatchObject({
    id: 'qwen/qwen3-vl-4b-instruct-gguf',
    entry: { name: 'qwen3-vl-4b' },
    isShort: false,
  })
  await expect(read('qwen3-vl-4b:../x')).rejects.toThrow("'../x' is not a quantisation of qwen3-vl-4b")
})

test('a name that is almost one of the catalogue', async () => {
  const read = (text: string) => readAddress(text, new URL('https://hub.example/'))
  await expect(read('qwen3vl-4b')).rejects.toThrow(
    /^'qwen3vl-4b' is neither a model of the catalogue nor an address \(did you mean qwen3-vl-4b[ ?]/,
  )
  await expect(read('Qwen3-VL')).rejects.toThrow(/\(did you mean (qwen3-vl-\w+( or )?)+\?\)/)
  await expect(read('zzzzzz')).rejects.toThrow("'zzzzzz' is neither a model of the catalogue nor an address; expected")
  await expect(read('q'.repeat(500))).rejects.toThrow('nor an address; expected')
})

test('settings are those of other tools', async () => {
  const read = (environment: Record<string, string>) => readHubSettings({ HF_HOME: '/none', ...environment })
  expect(await read({})).toEqual({
    endpoint: new URL('https://huggingface.co/'),
    token: null,
    cacheRoot: '/none/hub',
    isOffline: false,
  })
  expect(await read({ HF_HUB_CACHE: '/a', HUGGINGFACE_HUB_CACHE: '/b' })).toMatchObject({ cacheRoot: '/a' })
  expect(await read({ HUGGINGFACE_HUB_CACHE: '/b' })).toMatchObject({ cacheRoot: '/b' })
  expect(await read({ HF_HOME: '', XDG_CACHE_HOME: '/c' })).toMatchObject({ cacheRoot: '/c/huggingface/hub' })
  expect(await read({ MODEL_ENDPOINT: 'https://m.example/x', HF_TOKEN: ' hf_a\n' })).toMatchObject({
    endpoint: new URL('https://m.example/x/'),
    token: 'hf_a',
  })
  expect((await read({ MODEL_ENDPOINT: 'https://m.example', HF_ENDPOINT: 'https://h.example' })).endpoint.host).toBe(
    'h.example',
  )
  await expect(read({ HF_ENDPOINT: 'ftp://x' })).rejects.toThrow(
    "HF_ENDPOINT: expected an address such as https://huggingface.co, not 'ftp://x'",
  )
  await expect(read({ HF_TOKEN: 'a b' })).rejects.toThrow('HF_TOKEN: expected a token')
})

test('figures are written for people', () => {
  expect([0, 1023, 1024, 2 ** 20 - 1, 1.5 * GIB].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.0 MiB',
    '1.5 GiB',
  ])
  expect([0.2, 61, 3720].map(formatSeconds)).toEqual(['1 s', '1 min 01 s', '1 h 02 min'])
})
