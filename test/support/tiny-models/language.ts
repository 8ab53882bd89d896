import { float32, string, uint32, type WrittenField, type WrittenFile } from '../gguf-writer.ts'
import type { Vocabulary } from './vocabulary.ts'
import { Weights } from './weights.ts'

/** Floats per token in every tiny language model. */
export const EMBEDDING = 64
export const CONTEXT_TOKENS = 8192
/** Size of every head of attention. */
export const HEAD = 16
const HEADS = 4
const KV_HEADS = 2
const FEED_FORWARD = 96
const LAYERS = 2
/** Queries and keys so large that attention prefers a few tokens: the reply then depends on all of the prompt. */
const SHARPNESS = 1.25

export interface LanguageOptions {
  readonly architecture: string
  readonly vocabulary: Vocabulary
  readonly seed: string
  /** Further metadata, without the architecture before the name. */
  readonly metadata?: Readonly<Record<string, WrittenField>>
  /** Floats per token; `EMBEDDING` by default. */
  readonly embedding?: number
  readonly layers?: number
  /** Size of the heads of each layer; `HEAD` by default. The metadata must say it, too. */
  readonly heads?: readonly number[]
  readonly qkvBias?: boolean
  readonly qkNorm?: boolean
  /** How large queries and keys are; `SHARPNESS` by default. */
  readonly sharpness?: number
  /** Normalises what attention and feed-forward add, in Gemma's and GLM's way. */
  readonly postNorms?: 'gemma' | 'glm'
  /** Feed-forward as a mixture of so many experts, two of which are used. */
  readonly experts?: number
  /** Feed-forward of gate and up in one matrix. */
  readonly mergedGate?: boolean
  /** Deviation of token embeddings; 1 by default. */
  readonly embeddingScale?: number
  /** The name of the last norm. */
  readonly outputNorm?: string
  /** Layers that have a short convolution in place of attention, by the length of its kernel. */
  readonly convolutions?: { readonly layers: readonly number[]; readonly length: number }
  /** Adds the tensors that only this architecture has. */
  more?(weights: Weights): void
}

/** A transformer of the kind that llama.cpp reads, with random weights. */
export function languageModel(options: LanguageOptions): WrittenFile {
  const { architecture, vocabulary, embedding = EMBEDDING, layers = LAYERS, experts } = options
  const weights = new Weights(options.seed)
  weights.add('token_embd.weight', [embedding, vocabulary.size], { deviation: options.embeddingScale ?? 1 })
  weights.norm(`${options.outputNorm ?? 'output_norm'}.weight`, embedding)
  // Every other token's logit is 0, and one of the words' is higher.
  weights.add('output.weight', [embedding, vocabulary.size], {
    deviation: 0.4 / Math.sqrt(embedding),
    rows: vocabulary.words,
  })
  for (let layer = 0; layer < layers; layer++) addLayer(weights, layer, options)
  options.more?.(weights)
  const own: Record<string, WrittenField> = {
    context_length: uint32(CONTEXT_TOKENS),
    embedding_length: uint32(embedding),
    block_count: uint32(layers),
    feed_forward_length: uint32(FEED_FORWARD),
    'attention.head_count': uint32(HEADS),
    'attention.head_count_kv': uint32(KV_HEADS),
    'attention.key_length': uint32(HEAD),
    'attention.value_length': uint32(HEAD),
    'attention.layer_norm_rms_epsilon': float32(1e-6),
    'rope.freq_base': float32(10_000),
    ...(experts === undefined
      ? {}
      : {
          expert_count: uint32(experts),
          expert_used_count: uint32(2),
          expert_feed_forward_length: uint32(FEED_FORWARD),
        }),
    ...options.metadata,
  }
  const metadata = new Map<string, WrittenField>([
    ['general.architecture', string(architecture)],
    ['general.name', string(`tiny ${architecture} with random weights`)],
    ...Object.entries(own).map(([key, value]) => [`${architecture}.${key}`, value] as const),
    ...vocabulary.metadata,
  ])
  return { metadata, tensors: weights.tensors }
}

function addLayer(weights: Weights, layer: number, options: LanguageOptions): void {
  const name = (part: string) => `blk.${layer}.${part}`
  const {
    embedding = EMBEDDING,
    sharpness: wanted = SHARPNESS,
    qkvBias,
    qkNorm,
    postNorms,
    experts,
    mergedGate,
    convolutions,
  } = options
  const head = options.heads?.[layer] ?? HEAD
  weights.norm(name('attn_norm.weight'), embedding)
  if (convolutions?.layers.includes(layer)) {
    weights.add(name('shortconv.conv.weight'), [convolutions.length, embedding])
    weights.matrix(name('shortconv.in_proj.weight'), embedding, 3 * embedding)
    weights.matrix(name('shortconv.out_proj.weight'), embedding, embedding)
  } else {
    const sharpness = qkNorm ? 1 : wanted
    weights.matrix(name('attn_q.weight'), embedding, HEADS * head, sharpness)
    weights.matrix(name('attn_k.weight'), embedding, KV_HEADS * head, sharpness)
    weights.matrix(name('attn_v.weight'), embedding, KV_HEADS * head)
    weights.matrix(name('attn_output.weight'), HEADS * head, embedding, 1.5)
    if (qkvBias) {
      weights.bias(name('attn_q.bias'), HEADS * head)
      weights.bias(name('attn_k.bias'), KV_HEADS * head)
      weights.bias(name('attn_v.bias'), KV_HEADS * head)
    }
    if (qkNorm) {
      weights.norm(name('attn_q_norm.weight'), head, wanted)
      weights.norm(name('attn_k_norm.weight'), head, wanted)
    }
  }
  if (postNorms !== undefined) {
    weights.norm(name('post_attention_norm.weight'), embedding)
    weights.norm(name('post_ffw_norm.weight'), embedding)
  }
  weights.norm(name('ffn_norm.weight'), embedding)
  if (experts !== undefined) {
    weights.matrix(name('ffn_gate_inp.weight'), embedding, experts, 2)
    const stack = (part: string, inputs: number, outputs: number) =>
      weights.add(name(part), [inputs, outputs, experts], { deviation: 1 / Math.sqrt(inputs) })
    stack('ffn_gate_exps.weight', embedding, FEED_FORWARD)
    stack('ffn_up_exps.weight', embedding, FEED_FORWARD)
    stack('ffn_down_exps.weight', FEED_FORWARD, embedding)
    return
  }
  if (mergedGate) weights.matrix(name('ffn_up.weight'), embedding, 2 * FEED_FORWARD)
  else {
    weights.matrix(name('ffn_gate.weight'), embedding, FEED_FORWARD)
    weights.matrix(name('ffn_up.weight'), embedding, FEED_FORWARD)
  }
  weights.matrix(name('ffn_down.weight'), FEED_FORWARD, embedding)
}
