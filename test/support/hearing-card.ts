import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { bool, float32, readGguf, string, type Tensor, TensorType, uint32, writeGguf } from './gguf-writer.ts'
import { CARD } from './local-engine.ts'

export interface HearingCard {
  readonly path: string
  remove(): Promise<void>
}

const WIDTH = 64
const INNER = 128
const CHANNELS = 32
const MELS = 80
/** Three convolutions halve `MELS`, so one remains for every 8. */
const FEATURES = CHANNELS * (MELS / 8)
const POSITIONS = 13

/**
 * The shipped model with a small audio encoder (qwen3a, as in `training/`) whose weights are random. It shows that
 * audio reaches the model, but the model does not understand it.
 */
export async function hearingCard(): Promise<HearingCard> {
  const card = JSON.parse(await readFile(CARD, 'utf8'))
  const directory = await mkdtemp(join(tmpdir(), 'lookout-hearing-'))
  const from = dirname(CARD)
  const projector = join(directory, 'mmproj.gguf')
  const shipped = await readGguf(join(from, card.engine.projector))
  const seeing = shipped.tensors.filter(({ name }) => !name.startsWith('a.') && !name.startsWith('mm.a.'))
  const metadata = new Map([...shipped.metadata].filter(([key]) => !key.startsWith('clip.audio.')))
  const kind = metadata.get('clip.projector_type') ?? metadata.get('clip.vision.projector_type')!
  metadata.delete('clip.projector_type')
  metadata.set('clip.vision.projector_type', kind)
  metadata.set('clip.has_audio_encoder', bool(true))
  metadata.set('clip.audio.projector_type', string('qwen3a'))
  metadata.set('clip.audio.projection_dim', shipped.metadata.get('clip.vision.projection_dim')!)
  metadata.set('clip.audio.embedding_length', uint32(WIDTH))
  metadata.set('clip.audio.feed_forward_length', uint32(INNER))
  metadata.set('clip.audio.block_count', uint32(1))
  metadata.set('clip.audio.attention.head_count', uint32(2))
  metadata.set('clip.audio.attention.layer_norm_epsilon', float32(1e-5))
  metadata.set('clip.audio.num_mel_bins', uint32(MELS))
  const outputs = Number(shipped.metadata.get('clip.vision.projection_dim')!.value)
  await writeGguf(projector, { metadata, tensors: [...seeing, ...hearing(outputs)] })

  for (const served of card.serves) served.modalities = ['text', 'image', 'video', 'audio']
  card.audio = { tokensPerSecond: 12.5, windowSeconds: 1, maxTokens: 1024 }
  card.engine.model = join(from, card.engine.model)
  card.engine.projector = projector
  const path = join(directory, 'card.json')
  await writeFile(path, JSON.stringify(card))
  return { path, remove: () => rm(directory, { recursive: true }) }
}

function hearing(outputs: number): Tensor[] {
  const shapes: [name: string, shape: number[]][] = [
    ['a.position_embd.weight', [WIDTH, POSITIONS]],
    ['a.conv_out.weight', [FEATURES, WIDTH]],
    ['a.conv2d.1.weight', [3, 3, 1, CHANNELS]],
    ['a.conv2d.1.bias', [1, 1, CHANNELS]],
    ['a.conv2d.2.weight', [3, 3, CHANNELS, CHANNELS]],
    ['a.conv2d.2.bias', [1, 1, CHANNELS]],
    ['a.conv2d.3.weight', [3, 3, CHANNELS, CHANNELS]],
    ['a.conv2d.3.bias', [1, 1, CHANNELS]],
    ['a.post_ln.weight', [WIDTH]],
    ['a.post_ln.bias', [WIDTH]],
    ['mm.a.mlp.1.weight', [WIDTH, WIDTH]],
    ['mm.a.mlp.1.bias', [WIDTH]],
    ['mm.a.mlp.2.weight', [WIDTH, outputs]],
    ['mm.a.mlp.2.bias', [outputs]],
    ...['ln1', 'ln2'].flatMap((name): [string, number[]][] => [
      [`a.blk.0.${name}.weight`, [WIDTH]],
      [`a.blk.0.${name}.bias`, [WIDTH]],
    ]),
    ...['attn_q', 'attn_k', 'attn_v', 'attn_out'].flatMap((name): [string, number[]][] => [
      [`a.blk.0.${name}.weight`, [WIDTH, WIDTH]],
      [`a.blk.0.${name}.bias`, [WIDTH]],
    ]),
    ['a.blk.0.ffn_up.weight', [WIDTH, INNER]],
    ['a.blk.0.ffn_up.bias', [INNER]],
    ['a.blk.0.ffn_down.weight', [INNER, WIDTH]],
    ['a.blk.0.ffn_down.bias', [WIDTH]],
  ]
  return shapes.map(([name, shape], index) => ({
    name,
    shape,
    // The library's convolutions require half precision.
    type: name.startsWith('a.conv2d') && name.endsWith('weight') ? TensorType.F16 : TensorType.F32,
    read(): Buffer {
      const values = shape.reduce((product, side) => product * side, 1)
      const random = Float32Array.from({ length: values }, (_, i) => noise(index * 7919 + i))
      if (this.type === TensorType.F32) return Buffer.from(random.buffer)
      return Buffer.from(Uint16Array.from(random, half).buffer)
    },
  }))
}

/** Deterministic noise between -0.25 and 0.25. */
function noise(seed: number): number {
  const x = Math.sin(seed * 12.9898 + 78.233) * 43_758.5453
  return (x - Math.floor(x) - 0.5) / 2
}

/** Converts to half precision; valid for numbers that are neither very large nor very small. */
function half(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!
  const exponent = ((bits >> 23) & 255) - 112
  return ((bits >> 16) & 0x8000) | (exponent <= 0 ? 0 : (exponent << 10) | ((bits >> 13) & 0x3ff))
}
