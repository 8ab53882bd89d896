import { float32, string, uint32, type WrittenField, type WrittenFile } from '../gguf-writer.ts'
import type { Vocabulary } from './vocabulary.ts'
import { type TypeRule, Weights } from './weights.ts'

/** Floats per token in every tiny language model. */
export const EMBEDDING = 64
export const CONTEXT_TOKENS = 8192
/** Size of every head of attention. */
export const HEAD = 16

/** The sizes of a language model. */
export interface LanguageShape {
  /** Floats per token. */
  readonly embedding: number
  readonly layers: number
  readonly heads: number
  readonly kvHeads: number
  /** Size of every head. */
  readonly head: number
  readonly feedForward: number
  /** Tokens that it was trained with, so to say. */
  readonly contextTokens: number
}

const TINY: LanguageShape = {
  embedding: EMBEDDING,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  head: HEAD,
  feedForward: 96,
  contextTokens: CONTEXT_TOKENS,
}
/** Queries and keys so large that attention prefers a few tokens: the reply then depends on all of the prompt. */
const SHARPNESS = 1.25

interface DeltaNet {
  readonly layers: readonly number[]
  /** Length of the convolution's kernel. */
  readonly kernel: number
  /** Rows and columns of a head's state. */
  readonly state: number
  readonly keyHeads: number
  readonly valueHeads: number
}

export interface LanguageOptions {
  readonly architecture: string
  readonly vocabulary: Vocabulary
  readonly seed: string
  /** The model's name in its file. */
  readonly name?: string
  /** Further metadata, without the architecture before the name. */
  readonly metadata?: Readonly<Record<string, WrittenField>>
  /** Sizes other than those of a tiny model. */
  readonly shape?: Partial<LanguageShape>
  /** Types of the tensors; all are F32 by default. */
  readonly typeOf?: TypeRule
  /** Size of the heads of each layer, where they differ. The metadata must say it, too. */
  readonly headSizes?: readonly number[]
  readonly qkvBias?: boolean
  readonly qkNorm?: boolean
  /** How large queries and keys are; `SHARPNESS` by default. */
  readonly sharpness?: number
  /** How much attention adds, against 1 for the feed-forward; by default 1.5, or 1 where that is normalised. */
  readonly attentionGain?: number
  /** Normalises what attention and feed-forward add, in Gemma's and GLM's way. */
  readonly postNorms?: 'gemma' | 'glm'
  /** Experts of the feed-forward layers, two of which are used. */
  readonly experts?: number
  /** Feed-forward of gate and up in one matrix. */
  readonly mergedGate?: boolean
  /** Deviation of token embeddings; 1 by default. */
  readonly embeddingScale?: number
  /** Whether the output matrix is that of the token embeddings. Tokens that are not words then have none. */
  readonly tied?: boolean
  /** The name of the last norm. */
  readonly outputNorm?: string
  /** Layers that have a short convolution in place of attention, by the length of its kernel. */
  readonly convolutions?: { readonly layers: readonly number[]; readonly length: number }
  /** Layers that have a gated delta net in place of attention, as in Qwen3.5, whose attention has a gate too. */
  readonly deltaNet?: DeltaNet
  /** Adds the tensors that only this architecture has. */
  more?(weights: Weights): void
}

/** A transformer of the kind that llama.cpp reads, with random weights. */
export function languageModel(options: LanguageOptions): WrittenFile {
  const { architecture, vocabulary, experts, tied = false, embeddingScale: deviation = 1 } = options
  const shape = { ...TINY, ...options.shape }
  const { embedding, feedForward } = shape
  const weights = new Weights(options.seed, options.typeOf)
  // Every other token's logit is 0, and one of the words' is higher.
  const rows = vocabulary.words
  weights.add('token_embd.weight', [embedding, vocabulary.size], { deviation, ...(tied ? { rows } : {}) })
  weights.norm(`${options.outputNorm ?? 'output_norm'}.weight`, embedding)
  if (!tied) {
    weights.add('output.weight', [embedding, vocabulary.size], { deviation: 0.4 / Math.sqrt(embedding), rows })
  }
  for (let layer = 0; layer < shape.layers; layer++) addLayer(weights, layer, { ...options, shape })
  options.more?.(weights)
  const own: Record<string, WrittenField> = {
    context_length: uint32(shape.contextTokens),
    embedding_length: uint32(embedding),
    block_count: uint32(shape.layers),
    feed_forward_length: uint32(feedForward),
    'attention.head_count': uint32(shape.heads),
    'attention.head_count_kv': uint32(shape.kvHeads),
    'attention.key_length': uint32(shape.head),
    'attention.value_length': uint32(shape.head),
    'attention.layer_norm_rms_epsilon': float32(1e-6),
    'rope.freq_base': float32(10_000),
    ...(experts === undefined
      ? {}
      : {
          expert_count: uint32(experts),
          expert_used_count: uint32(2),
          expert_feed_forward_length: uint32(feedForward),
        }),
    ...options.metadata,
  }
  const metadata = new Map<string, WrittenField>([
    ['general.architecture', string(architecture)],
    ['general.name', string(options.name ?? `tiny ${architecture} with random weights`)],
    ...Object.entries(own).map(([key, value]) => [`${architecture}.${key}`, value] as const),
    ...vocabulary.metadata,
  ])
  return { metadata, tensors: weights.tensors }
}

function addLayer(weights: Weights, layer: number, options: LanguageOptions & { readonly shape: LanguageShape }): void {
  const name = (part: string) => `blk.${layer}.${part}`
  const { sharpness: wanted = SHARPNESS, qkvBias, qkNorm, postNorms, experts, mergedGate } = options
  const { convolutions, deltaNet } = options
  const { embedding, heads, kvHeads, feedForward } = options.shape
  const head = options.headSizes?.[layer] ?? options.shape.head
  weights.norm(name('attn_norm.weight'), embedding)
  if (convolutions?.layers.includes(layer)) {
    weights.add(name('shortconv.conv.weight'), [convolutions.length, embedding])
    weights.matrix(name('shortconv.in_proj.weight'), embedding, 3 * embedding)
    weights.matrix(name('shortconv.out_proj.weight'), embedding, embedding)
  } else if (deltaNet?.layers.includes(layer)) addDeltaNet(weights, name, embedding, deltaNet)
  else {
    const sharpness = qkNorm ? 1 : wanted
    weights.matrix(name('attn_q.weight'), embedding, (deltaNet ? 2 : 1) * heads * head, sharpness)
    weights.matrix(name('attn_k.weight'), embedding, kvHeads * head, sharpness)
    weights.matrix(name('attn_v.weight'), embedding, kvHeads * head)
    weights.matrix(name('attn_output.weight'), heads * head, embedding, options.attentionGain ?? 1.5)
    if (qkvBias) {
      weights.bias(name('attn_q.bias'), heads * head)
      weights.bias(name('attn_k.bias'), kvHeads * head)
      weights.bias(name('attn_v.bias'), kvHeads * head)
    }
    if (qkNorm) {
      weights.norm(name('attn_q_norm.weight'), head, wanted)
      weights.norm(name('attn_k_norm.weight'), head, wanted)
    }
  }
  if (postNorms !== undefined) {
    weights.norm(name('post_attention_norm.weight'), embedding, options.attentionGain)
    weights.norm(name('post_ffw_norm.weight'), embedding)
  }
  weights.norm(name(deltaNet ? 'post_attention_norm.weight' : 'ffn_norm.weight'), embedding)
  if (experts !== undefined) {
    weights.matrix(name('ffn_gate_inp.weight'), embedding, experts, 2)
    const stack = (part: string, inputs: number, outputs: number) =>
      weights.add(name(part), [inputs, outputs, experts], { deviation: 1 / Math.sqrt(inputs) })
    stack('ffn_gate_exps.weight', embedding, feedForward)
    stack('ffn_up_exps.weight', embedding, feedForward)
    stack('ffn_down_exps.weight', feedForward, embedding)
    return
  }
  if (mergedGate) weights.matrix(name('ffn_up.weight'), embedding, 2 * feedForward)
  else {
    weights.matrix(name('ffn_gate.weight'), embedding, feedForward)
    weights.matrix(name('ffn_up.weight'), embedding, feedForward)
  }
  weights.matrix(name('ffn_down.weight'), feedForward, embedding)
}

function addDeltaNet(
  weights: Weights,
  name: (part: string) => string,
  embedding: number,
  { kernel, state, keyHeads, valueHeads }: DeltaNet,
): void {
  const [keys, values] = [keyHeads * state, valueHeads * state]
  weights.matrix(name('attn_qkv.weight'), embedding, 2 * keys + values)
  weights.matrix(name('attn_gate.weight'), embedding, values)
  weights.add(name('ssm_conv1d.weight'), [kernel, 2 * keys + values])
  weights.bias(name('ssm_dt.bias'), valueHeads)
  // Minus the rate at which a head forgets.
  weights.norm(name('ssm_a'), valueHeads, -0.1)
  weights.matrix(name('ssm_beta.weight'), embedding, valueHeads)
  weights.matrix(name('ssm_alpha.weight'), embedding, valueHeads)
  weights.norm(name('ssm_norm.weight'), state)
  weights.matrix(name('ssm_out.weight'), values, embedding, 1.5)
}
