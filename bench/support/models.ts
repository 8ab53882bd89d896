/**
 * The models of the benchmarks. Neither can end a reply, because the control tokens' rows of the output matrix are
 * zero. A greedy reply therefore always has the requested number of tokens, and both servers generate equally many.
 */
import { isUtf8 } from 'node:buffer'
import { copyFile, mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadLocalCard, type ModelCard } from '../../src/models/card.ts'
import { GgufArray, type GgufValue } from '../../src/models/gguf.ts'
import { cacheDirectory } from '../../src/setup/native-library.mjs'
import {
  float32,
  type GgufFile,
  readGguf,
  string,
  type Tensor,
  TensorType,
  tensorBytes,
  uint32,
  writeGguf,
} from '../../test/support/gguf-writer.ts'
import { type Peer, requirePeer } from './peer-build.ts'

export interface BenchModel {
  readonly name: string
  readonly cardFile: string
  readonly card: ModelCard
  readonly id: string
  readonly model: string
  readonly projector: string | null
  readonly takesImages: boolean
  /** The number of threads that Lookout's engine uses for weights of this size. The peer gets the same. */
  readonly threads: number
}

export type BenchModelName = 'nano' | 'half-billion'
export const MODEL_NAMES: readonly BenchModelName[] = ['nano', 'half-billion']

export const SHIPPED_CARD = fileURLToPath(new URL('../../models/lookout-nano/card.json', import.meta.url))
const CONTROL_TOKEN = 3
/** Increase it when the models below change. */
const REVISION = 3
/** As in `src/inference/local/host/local-engine.ts`. */
const WEIGHT_BYTES_PER_THREAD = 32 * 2 ** 20

/** @param peer provides the vocabulary for the random weights; found in the cache by default. */
export async function prepareModel(name: BenchModelName, peer?: Peer): Promise<BenchModel> {
  const cardFile = name === 'nano' ? await endlessNano() : await randomHalfBillion((peer ?? requirePeer()).vocabulary)
  const card = await loadLocalCard(cardFile)
  const model = join(card.directory, card.engine.model)
  const projector = card.engine.projector === undefined ? null : join(card.directory, card.engine.projector)
  const bytes = (await stat(model)).size + (projector === null ? 0 : (await stat(projector)).size)
  return {
    name: name === 'nano' ? 'shipped model' : '0.5B, random weights',
    cardFile,
    card,
    id: card.serves[0]!.id,
    model,
    projector,
    takesImages: card.image !== undefined,
    threads: Math.min(availableParallelism(), Math.ceil(bytes / WEIGHT_BYTES_PER_THREAD)),
  }
}

/** The shipped model with a changed output matrix. Rebuilt when the shipped files change. */
async function endlessNano(): Promise<string> {
  const card = await loadLocalCard(SHIPPED_CARD)
  const [source, projector] = [card.engine.model, card.engine.projector!].map((name) => join(card.directory, name))
  const { mtimeMs } = await stat(source!)
  return once(`nano-${REVISION}-${Math.round(mtimeMs)}`, async (folder) => {
    await copyFile(SHIPPED_CARD, join(folder, 'card.json'))
    await copyFile(projector!, join(folder, card.engine.projector!))
    const { metadata, tensors } = await readGguf(source!)
    const embedding = tensors.find(({ name }) => name === 'token_embd.weight')!
    const output = tensors.find(({ name }) => name === 'output.weight') ?? embedding
    const data = Buffer.from(output.read())
    const rowBytes = tensorBytes({ type: output.type, shape: [output.shape[0]!] })
    const types = arrayOf(metadata, 'tokenizer.ggml.token_type')
    for (const [token, type] of types.entries()) {
      if (type === CONTROL_TOKEN) data.fill(0, token * rowBytes, (token + 1) * rowBytes)
    }
    const others = tensors.filter(({ name }) => name !== 'output.weight')
    const own: Tensor = { ...output, name: 'output.weight', read: () => data }
    await writeGguf(join(folder, card.engine.model), { metadata, tensors: [...others, own] })
  })
}

/** The shape of Qwen2.5 0.5B: as fast as a real model, but its text is meaningless. */
const SHAPE = { embedding: 896, layers: 24, heads: 14, kvHeads: 2, feedForward: 4864 }
/** Standard deviation of the weights, as models are initialised. */
const STANDARD_DEVIATION = 0.02
const TEMPLATE =
  '{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}' +
  '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'

/** The byte of each character in GPT-2's vocabularies: printable bytes stand for themselves, others start at 256. */
const BYTE_OF = new Map(
  ((printable) => [
    ...printable.map((byte) => [byte, byte] as const),
    ...[...Array(256).keys()]
      .filter((byte) => !printable.includes(byte))
      .map((byte, index) => [256 + index, byte] as const),
  ])([...Array(256).keys()].filter((byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173))),
)
const byteOf = (character: string): number => BYTE_OF.get(character.codePointAt(0)!) ?? 0

async function randomHalfBillion(vocabularyFile: string): Promise<string> {
  return once(`half-billion-${REVISION}`, async (folder) => {
    const { embedding, layers, heads, kvHeads, feedForward } = SHAPE
    const vocabulary = await readGguf(vocabularyFile)
    const types = arrayOf(vocabulary.metadata, 'tokenizer.ggml.token_type')
    const metadata = new Map([
      ['general.architecture', string('qwen2')],
      ['general.name', string('random weights for speed measurements')],
      ['qwen2.context_length', uint32(32_768)],
      ['qwen2.embedding_length', uint32(embedding)],
      ['qwen2.block_count', uint32(layers)],
      ['qwen2.feed_forward_length', uint32(feedForward)],
      ['qwen2.attention.head_count', uint32(heads)],
      ['qwen2.attention.head_count_kv', uint32(kvHeads)],
      ['qwen2.attention.layer_norm_rms_epsilon', float32(1e-6)],
      ['qwen2.rope.freq_base', float32(1e6)],
      ...[...vocabulary.metadata].filter(([key]) => key.startsWith('tokenizer.ggml.')),
      ['tokenizer.chat_template', string(TEMPLATE)],
    ] as const)

    const random = new RandomWeights()
    const kvSize = (embedding / heads) * kvHeads
    const matrix = (name: string, inputs: number, outputs: number, zeroRows: readonly number[] = []): Tensor => {
      const shape = [inputs, outputs]
      return { name, shape, type: TensorType.Q8_0, read: () => random.matrix(inputs, outputs, zeroRows) }
    }
    const constant = (name: string, size: number, value: number): Tensor => {
      const read = () => Buffer.from(new Float32Array(size).fill(value).buffer)
      return { name, shape: [size], type: TensorType.F32, read }
    }
    const texts = arrayOf(vocabulary.metadata, 'tokenizer.ggml.tokens')
    // Never generated: control tokens, and partial characters, for which llama-server sometimes returns an error.
    const excluded = [...types.keys()].filter(
      (token) => types[token] === CONTROL_TOKEN || !isUtf8(Buffer.from([...String(texts[token])].map(byteOf))),
    )
    const tensors = [
      matrix('token_embd.weight', embedding, types.length, excluded),
      constant('output_norm.weight', embedding, 1),
    ]
    for (let layer = 0; layer < layers; layer++) {
      const name = (part: string) => `blk.${layer}.${part}`
      tensors.push(
        constant(name('attn_norm.weight'), embedding, 1),
        constant(name('ffn_norm.weight'), embedding, 1),
        matrix(name('attn_q.weight'), embedding, embedding),
        matrix(name('attn_k.weight'), embedding, kvSize),
        matrix(name('attn_v.weight'), embedding, kvSize),
        constant(name('attn_q.bias'), embedding, 0),
        constant(name('attn_k.bias'), kvSize, 0),
        constant(name('attn_v.bias'), kvSize, 0),
        matrix(name('attn_output.weight'), embedding, embedding),
        matrix(name('ffn_gate.weight'), embedding, feedForward),
        matrix(name('ffn_up.weight'), embedding, feedForward),
        matrix(name('ffn_down.weight'), feedForward, embedding),
      )
    }
    await writeGguf(join(folder, 'model-q8_0.gguf'), { metadata, tensors })
    const card = {
      name: 'Random half billion',
      license: 'none: noise',
      ownedBy: 'bench',
      serves: [
        {
          id: 'random',
          name: 'Random weights',
          created: 0,
          capabilities: [],
          modalities: ['text'],
          outputFormats: ['text'],
          reasoning: false,
          maxContextTokens: 32_768,
          maxOutputTokens: 8192,
        },
      ],
      engine: { type: 'local', model: 'model-q8_0.gguf', contextTokens: 32_768, maxSequences: 64 },
      dialect: 'markup',
    }
    await writeFile(join(folder, 'card.json'), `${JSON.stringify(card, null, 2)}\n`)
  })
}

function arrayOf(metadata: GgufFile['metadata'], key: string): GgufValue[] {
  const value = metadata.get(key)?.value
  if (!(value instanceof GgufArray)) throw new Error(`The file has no array ${key}`)
  return [...value]
}

/** Deterministic noise, quantised to Q8_0: blocks of 32 weights, a half-precision scale before 32 signed bytes. */
class RandomWeights {
  #state = 0x2545f491

  matrix(inputs: number, outputs: number, zeroRows: readonly number[]): Buffer {
    const data = Buffer.allocUnsafe(tensorBytes({ type: TensorType.Q8_0, shape: [inputs, outputs] }))
    // Uniform bytes in -127..127 have a standard deviation of 127 / sqrt(3).
    const scale = halfPrecision((STANDARD_DEVIATION * Math.sqrt(3)) / 127)
    for (let at = 0; at < data.length; at += 34) {
      data.writeUInt16LE(scale, at)
      for (let i = at + 2; i < at + 34; i += 4) data.writeInt32LE(this.#next(), i)
    }
    const rowBytes = tensorBytes({ type: TensorType.Q8_0, shape: [inputs] })
    for (const row of zeroRows) data.fill(0, row * rowBytes, (row + 1) * rowBytes)
    return data
  }

  /** Marsaglia's xorshift32. */
  #next(): number {
    let x = this.#state
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    this.#state = x
    return x
  }
}

/** The bits of the nearest half-precision number; valid for small, positive, normal numbers. */
function halfPrecision(value: number): number {
  const exponent = Math.max(-14, Math.floor(Math.log2(value)))
  const mantissa = Math.round((value / 2 ** exponent) * 1024)
  return mantissa < 1024 ? mantissa : ((exponent + 15) << 10) + (mantissa - 1024)
}

/** Creates a folder in the cache atomically, unless it exists. Returns the path of its card. */
async function once(name: string, make: (folder: string) => Promise<void>): Promise<string> {
  const target = join(cacheDirectory(), 'bench', name)
  const card = join(target, 'card.json')
  if (await stat(card).catch(() => null)) return card
  await mkdir(dirname(target), { recursive: true })
  const folder = await mkdtemp(join(dirname(target), 'making-'))
  try {
    await make(folder)
    await rename(folder, target)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return card
}
