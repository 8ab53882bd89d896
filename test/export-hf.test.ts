import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadNativeLibraries } from '../src/inference/local/native/libraries.ts'
import { Model } from '../src/inference/local/native/model.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import { type Outcome, outcomeOf, startLookout } from './support/command-line.ts'
import { type GgufFile, readGguf, string, type Tensor, TensorType, type WrittenFile } from './support/gguf-writer.ts'
import { CARD } from './support/local-engine.ts'
import { qwen2Vl, qwen3Vl } from './support/tiny-models/qwen.ts'
import { type TinyModel, writeTinyModel } from './support/tiny-models/tiny-model.ts'

const SHIPPED = 'models/lookout-nano'
const directory = await mkdtemp(join(tmpdir(), 'lookout-export-'))
const folder = join(directory, 'shipped')
let outcome: Outcome
let language: GgufFile
let encoder: GgufFile

beforeAll(async () => {
  const { engine } = JSON.parse(await readFile(CARD, 'utf8'))
  language = await readGguf(join(SHIPPED, engine.model))
  encoder = await readGguf(join(SHIPPED, engine.projector))
  outcome = await exportHf(folder)
})
afterAll(() => rm(directory, { recursive: true }))

function exportHf(...args: readonly string[]): Promise<Outcome> {
  return outcomeOf(startLookout(['export-hf', ...args]))
}

async function json(name: string, from = folder) {
  return JSON.parse(await readFile(join(from, name), 'utf8'))
}

interface StoredTensor {
  readonly dtype: string
  readonly shape: readonly number[]
  readonly bytes: Buffer
}

/** Reads a safetensors file. https://huggingface.co/docs/safetensors/index#format */
async function readSafetensors(path: string): Promise<ReadonlyMap<string, StoredTensor>> {
  const file = await readFile(path)
  const headerBytes = Number(file.readBigUInt64LE(0))
  expect(headerBytes % 8).toBe(0)
  const { __metadata__, ...tensors } = JSON.parse(file.toString('utf8', 8, 8 + headerBytes))
  expect(__metadata__).toEqual({ format: 'pt' })
  const values = file.subarray(8 + headerBytes)
  const read = new Map<string, StoredTensor>()
  let end = 0
  for (const [name, { dtype, shape, data_offsets }] of Object.entries<Record<string, never>>(tensors)) {
    const [from, to] = data_offsets as unknown as [number, number]
    expect(from).toBe(end)
    end = to
    read.set(name, { dtype, shape, bytes: values.subarray(from, to) } as unknown as StoredTensor)
  }
  expect(end).toBe(values.length)
  return read
}

function tensorOf({ tensors }: Pick<GgufFile, 'tensors'>, name: string): Tensor {
  return tensors.find((tensor) => tensor.name === name)!
}

describe('the shipped model', () => {
  test('is written as a folder of nine files', async () => {
    expect(outcome).toEqual({
      code: 0,
      stderr: '',
      stdout: `Wrote Lookout Nano, 9.0 million parameters, to ${folder}. The audio encoder was left out.\n`,
    })
    expect((await readdir(folder)).sort()).toEqual([
      ...['README.md', 'chat_template.jinja', 'config.json', 'generation_config.json', 'model.safetensors'],
      ...['preprocessor_config.json', 'tokenizer.json', 'tokenizer_config.json', 'video_preprocessor_config.json'],
    ])
    expect((await readdir(directory)).filter((name) => name.startsWith('.'))).toEqual([])
  })

  test('has every tensor of the language model and the image encoder, with the same values', async () => {
    const stored = await readSafetensors(join(folder, 'model.safetensors'))
    const expectEqual = (name: string, file: GgufFile, from: string) => {
      const { dtype, shape, bytes } = stored.get(name)!
      const tensor = tensorOf(file, from)
      expect({ name, dtype, shape }).toEqual({
        name,
        dtype: tensor.type === TensorType.F16 ? 'F16' : 'F32',
        shape: tensor.shape.toReversed(),
      })
      expect(bytes.equals(tensor.read()), name).toBe(true)
    }
    const text = 'model.language_model'
    expectEqual(`${text}.embed_tokens.weight`, language, 'token_embd.weight')
    expectEqual(`${text}.norm.weight`, language, 'output_norm.weight')
    const visual = 'model.visual'
    expectEqual(`${visual}.patch_embed.proj.bias`, encoder, 'v.patch_embd.bias')
    expectEqual(`${visual}.pos_embed.weight`, encoder, 'v.position_embd.weight')
    for (const part of ['weight', 'bias']) expectEqual(`${visual}.merger.norm.${part}`, encoder, `v.post_ln.${part}`)
    expectEqual(`${visual}.merger.linear_fc2.bias`, encoder, 'mm.2.bias')
    for (let layer = 0; layer < 6; layer++) {
      for (const [name, from] of [
        ...[
          ['input_layernorm', 'attn_norm'],
          ['post_attention_layernorm', 'ffn_norm'],
        ],
        ...['q', 'k', 'v'].map((part) => [`self_attn.${part}_proj`, `attn_${part}`]),
        ...['q', 'k'].map((part) => [`self_attn.${part}_norm`, `attn_${part}_norm`]),
        ['self_attn.o_proj', 'attn_output'],
        ...['gate', 'up', 'down'].map((part) => [`mlp.${part}_proj`, `ffn_${part}`]),
      ]) {
        expectEqual(`${text}.layers.${layer}.${name}.weight`, language, `blk.${layer}.${from}.weight`)
      }
      for (const [name, from] of [
        ...[
          ['norm1', 'ln1'],
          ['attn.qkv', 'attn_qkv'],
          ['attn.proj', 'attn_out'],
          ['norm2', 'ln2'],
        ],
        ...[
          ['mlp.linear_fc1', 'ffn_up'],
          ['mlp.linear_fc2', 'ffn_down'],
        ],
      ]) {
        for (const part of ['weight', 'bias']) {
          expectEqual(`${visual}.blocks.${layer}.${name}.${part}`, encoder, `v.blk.${layer}.${from}.${part}`)
        }
      }
    }
    const audio = encoder.tensors.filter(({ name }) => /^(a|mm\.a)\./.test(name))
    // Both kernels of the patches became one.
    expect(stored.size).toBe(language.tensors.length + encoder.tensors.length - audio.length - 1)
  })

  test('has one kernel for two frames, and a merger that is filled up with zeros', async () => {
    const stored = await readSafetensors(join(folder, 'model.safetensors'))
    const half = (bytes: Buffer) =>
      new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
    const kernel = stored.get('model.visual.patch_embed.proj.weight')!
    expect(kernel).toMatchObject({ dtype: 'F16', shape: [192, 3, 2, 16, 16] })
    const values = half(kernel.bytes)
    for (const [frame, name] of ['v.patch_embd.weight', 'v.patch_embd.weight.1'].entries()) {
      const plane = half(tensorOf(encoder, name).read())
      const same = plane.every((value, i) => value === values[Math.floor(i / 256) * 512 + frame * 256 + (i % 256)])
      expect(same, name).toBe(true)
    }
    const first = stored.get('model.visual.merger.linear_fc1.weight')!
    expect(first).toMatchObject({ dtype: 'F16', shape: [768, 768] })
    const rows = tensorOf(encoder, 'mm.0.weight').read()
    expect(first.bytes.equals(Buffer.concat([rows, Buffer.alloc(256 * 768 * 2)]))).toBe(true)
    const bias = stored.get('model.visual.merger.linear_fc1.bias')!
    expect(bias).toMatchObject({ dtype: 'F32', shape: [768] })
    expect(bias.bytes.equals(Buffer.concat([tensorOf(encoder, 'mm.0.bias').read(), Buffer.alloc(256 * 4)]))).toBe(true)
    const second = stored.get('model.visual.merger.linear_fc2.weight')!
    expect(second).toMatchObject({ dtype: 'F16', shape: [256, 768] })
    const columns = half(tensorOf(encoder, 'mm.2.weight').read())
    const padded = half(second.bytes)
    expect(
      padded.every((value, i) => value === (i % 768 < 512 ? columns[Math.floor(i / 768) * 512 + (i % 768)] : 0)),
    ).toBe(true)
  })

  test('is described as its files and its card describe it', async () => {
    const tokens: string[] = (await json('tokenizer.json')).added_tokens.map(
      ({ content }: { content: string }) => content,
    )
    const config = await json('config.json')
    expect(config).toMatchObject({
      architectures: ['Qwen3VLForConditionalGeneration'],
      dtype: 'float16',
      tie_word_embeddings: true,
      text_config: {
        hidden_size: 256,
        num_hidden_layers: 6,
        rope_theta: 100_000,
        rms_norm_eps: 1e-6,
        vocab_size: 2048,
      },
      vision_config: { depth: 6, hidden_size: 192, num_position_embeddings: 256, deepstack_visual_indexes: [] },
    })
    expect(tokens).toContain('<|image_pad|>')
    const { vocab } = (await json('tokenizer.json')).model
    expect(vocab['<|image_pad|>']).toBe(config.image_token_id)
    const { eos_token_id: ends } = await json('generation_config.json')
    expect(ends).toEqual([vocab['<|im_end|>'], vocab['<|endoftext|>']])
    const { image, video } = JSON.parse(await readFile(CARD, 'utf8'))
    expect((await json('preprocessor_config.json')).size).toEqual({
      // Frames of a video, which may be shown as images, are smaller.
      shortest_edge: video.minTokens * image.pixelsPerToken ** 2,
      longest_edge: image.maxTokens * image.pixelsPerToken ** 2,
    })
    expect(await json('video_preprocessor_config.json')).toMatchObject({
      fps: 2,
      max_frames: 128,
      max_video_tokens: 36,
    })
    expect(await readFile(join(folder, 'chat_template.jinja'), 'utf8')).toContain('<|im_start|>')
    expect(await readFile(join(folder, 'README.md'), 'utf8')).toMatch(/^---\nlibrary_name: .+\nlicense: mit\n---\n/s)
  })
})

describe('tokenizer.json', () => {
  let model: Model
  let tokenizer: Tokenizer
  let marks: string[]

  beforeAll(async () => {
    const { engine } = JSON.parse(await readFile(CARD, 'utf8'))
    model = new Model(loadNativeLibraries(locateNativeLibraries()).llama, join(SHIPPED, engine.model))
    const written = await json('tokenizer.json')
    tokenizer = new Tokenizer(written, await json('tokenizer_config.json'))
    marks = written.added_tokens.map(({ content }: { content: string }) => content)
  })
  afterAll(() => model?.close())

  const expectSameIds = (text: string) => {
    const { ids } = tokenizer.encode(text, { add_special_tokens: false })
    expect(ids).toEqual([...model.tokenize(text, true)])
    return ids
  }

  test.each(['grapheme-ascii', 'grapheme', 'binary'] as const)('gives the ids of llama.cpp: %s', (unit) => {
    fc.assert(
      fc.property(fc.string({ unit, minLength: 1, maxLength: 40 }), (text) => {
        const ids = expectSameIds(text)
        expect(tokenizer.decode(ids, { skip_special_tokens: false })).toBe(text)
      }),
      { numRuns: 30 },
    )
  })

  test('gives the ids of llama.cpp: special tokens, contractions and white space', () => {
    const piece = fc.oneof(
      fc.nat({ max: marks.length - 1 }).map((index) => marks[index]!),
      fc.constantFrom("'s", "'LL", 'ſ', ' ', '  ', '\n', '\r\n', '\t', '\u00a0', '12', ' red', '[unused0]', 'e\u0301'),
      fc.string({ maxLength: 6 }),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => void expectSameIds(pieces.join(''))),
      { numRuns: 30 },
    )
  })
})

/** Exports a tiny model into a folder of the name. */
async function exportTiny(model: TinyModel, name: string, change?: (file: string) => Promise<void>) {
  const card = await writeTinyModel({ ...model, name: `${name} model` }, directory)
  await change?.(join(card.directory, card.engine.model))
  const target = join(directory, name)
  return { target, result: await exportHf(card.file, target) }
}

type Change = Partial<Tensor> & { readonly name: string }

/** The file with other tensors in place of those of their names. */
function replaced({ metadata, tensors }: WrittenFile, ...changes: readonly Change[]): WrittenFile {
  const changed = tensors.map((tensor) => ({ ...tensor, ...changes.find(({ name }) => name === tensor.name) }))
  return { metadata, tensors: changed }
}

test('deepstack layers, an output matrix of its own, and weights in Q8_0 and BF16', async () => {
  const written = qwen3Vl.language()
  const factors = Float32Array.from({ length: 64 * 64 }, (_, i) => ((i * 37) % 255) - 127)
  const scales = Array.from({ length: factors.length / 32 }, (_, block) => 2 ** -(block % 8) / 3)
  const packed = Buffer.alloc((factors.length / 32) * 34)
  for (const [block, scale] of scales.entries()) {
    Buffer.from(Float16Array.of(scale).buffer).copy(packed, block * 34)
    for (let i = 0; i < 32; i++) packed.writeInt8(factors[block * 32 + i]!, block * 34 + 2 + i)
  }
  const brain = Buffer.from(Uint16Array.from({ length: 64 * 64 }, (_, i) => i * 7).buffer)
  const language = replaced(
    written,
    { name: 'blk.0.attn_q.weight', type: TensorType.Q8_0, read: () => packed },
    { name: 'blk.0.attn_output.weight', type: TensorType.BF16, read: () => brain },
  )
  const { target, result } = await exportTiny({ ...qwen3Vl, language: () => language }, 'deepstack')
  expect(result).toMatchObject({ code: 0, stderr: '' })
  expect(result.stdout).not.toContain('audio')
  const config = await json('config.json', target)
  expect(config).toMatchObject({
    dtype: 'float32',
    tie_word_embeddings: false,
    vision_config: { deepstack_visual_indexes: [0] },
  })
  const stored = await readSafetensors(join(target, 'model.safetensors'))
  expect(stored.get('lm_head.weight')!.bytes.equals(tensorOf(written, 'output.weight').read())).toBe(true)
  const query = stored.get('model.language_model.layers.0.self_attn.q_proj.weight')!
  expect(query.dtype).toBe('F32')
  const values = factors.map((factor, i) => factor * Math.f16round(scales[i >> 5]!))
  expect(query.bytes.equals(Buffer.from(values.buffer))).toBe(true)
  const out = stored.get('model.language_model.layers.0.self_attn.o_proj.weight')!
  expect(out.dtype).toBe('BF16')
  expect(out.bytes.equals(brain)).toBe(true)
  for (const [name, from] of Object.entries({ norm: 'norm', linear_fc1: 'fc1', linear_fc2: 'fc2' })) {
    const merged = stored.get(`model.visual.deepstack_merger_list.0.${name}.weight`)!
    expect(merged.bytes.equals(tensorOf(qwen3Vl.encoder!(), `v.deepstack.0.${from}.weight`).read())).toBe(true)
  }
})

async function expectRefused({ target, result }: { target: string; result: Outcome }, message: RegExp) {
  expect(result).toMatchObject({ code: 1, stdout: '' })
  expect(result.stderr).toMatch(/^lookout: [^\n]+\n$/)
  expect(result.stderr).toMatch(message)
  const names = await readdir(directory)
  expect(names.filter((name) => join(directory, name) === target || name.endsWith('.part'))).toEqual([])
}

const { encoder: _, ...withoutEncoder } = qwen3Vl
const withoutKeys = {
  ...qwen3Vl.language(),
  tensors: qwen3Vl.language().tensors.filter(({ name }) => !/attn_k/.test(name)),
}
const withTokenizer = ({ metadata, tensors }: WrittenFile, pre: string): WrittenFile => ({
  metadata: new Map([...metadata, ['tokenizer.ggml.pre', string(pre)]]),
  tensors,
})
const biased = (file: WrittenFile): WrittenFile => ({
  ...file,
  tensors: [...file.tensors, { ...tensorOf(file, 'output_norm.weight'), name: 'blk.0.attn_q.bias' }],
})
test.each<[string, TinyModel, RegExp]>([
  [
    'another architecture',
    qwen2Vl,
    /model\.gguf cannot be exported: its architecture is 'qwen2vl'; only .+ 'qwen3vl',/,
  ],
  [
    'another encoder',
    { ...qwen3Vl, encoder: qwen2Vl.encoder! },
    /mmproj\.gguf cannot be exported: its projector is 'qwen2vl_merger'/,
  ],
  [
    'no encoder',
    { ...withoutEncoder, image: undefined },
    /Tiny no encoder model cannot be exported: it takes no images/,
  ],
  [
    'another tokenizer',
    { ...qwen3Vl, language: () => withTokenizer(qwen3Vl.language(), 'llama-bpe') },
    /its tokenizer is 'gpt2, llama-bpe', not 'gpt2, qwen2'/,
  ],
  ['a missing tensor', { ...qwen3Vl, language: () => withoutKeys }, /the tensor 'blk\.0\.attn_k\.weight' is missing/],
  [
    'an unknown tensor',
    { ...qwen3Vl, language: () => biased(qwen3Vl.language()) },
    /the tensor 'blk\.0\.attn_q\.bias' is none of Qwen3-VL's/,
  ],
])('%s is refused in one line, and nothing is written', async (name, model, message) => {
  await expectRefused(await exportTiny(model, name), message)
})

test('another quantisation is refused, and nothing is written', async () => {
  const exported = await exportTiny(qwen3Vl, 'quantised', async (file) => {
    const bytes = await readFile(file)
    const name = 'blk.1.ffn_up.weight'
    // The name is followed by the number of dimensions, their sizes, and the type.
    bytes.writeUInt32LE(12, bytes.indexOf(name) + name.length + 4 + 2 * 8)
    await writeFile(file, bytes)
  })
  await expectRefused(exported, /the tensor 'blk\.1\.ffn_up\.weight' is quantised; only F32, F16, BF16 and Q8_0 can be/)
})

test('a truncated file is refused, and nothing is left of what was written', async () => {
  const exported = await exportTiny(qwen3Vl, 'truncated', async (file) =>
    truncate(file, (await stat(file)).size - 1000),
  )
  await expectRefused(exported, /model\.gguf: the file ends within the tensor 'blk\.1\.ffn_down\.weight'/)
})

test('an empty folder is filled; another one, and a file, stay as they are', async () => {
  const empty = join(directory, 'empty')
  await mkdir(empty)
  expect((await exportHf('service-mk1', empty)).code).toBe(0)
  expect(await readdir(empty)).toHaveLength(9)
  await rm(join(empty, 'model.safetensors'))
  const again = await exportHf(empty)
  expect(again).toEqual({ code: 1, stdout: '', stderr: `lookout: ${empty} is not empty\n` })
  expect(await readdir(empty)).toHaveLength(8)
  const file = join(empty, 'README.md')
  expect(await exportHf(file)).toEqual({ code: 1, stdout: '', stderr: `lookout: ${file} is not a folder\n` })
})

test.each([
  [[], /FOLDER is missing; see --help/],
  [['no-such', 'folder'], /'no-such' is neither a file nor a model/],
  [['a', 'b', 'c'], /'c' is one argument too many/],
])('%j is refused in one line', async (args, message) => {
  const { code, stdout, stderr } = await exportHf(...args)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^lookout: [^\n]+\n$/)
  expect(stderr).toMatch(message)
})
