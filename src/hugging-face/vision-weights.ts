import type { ModelShape } from './model-shape.ts'
import { joinedFrames, padded } from './reshape.ts'
import type { Weight } from './safetensors.ts'
import type { SourceFile } from './source-file.ts'

const VISUAL = 'model.visual'
/** llama.cpp's names of a layer's tensors, and those of Transformers. */
const LAYER_PARTS = {
  ln1: 'norm1',
  attn_qkv: 'attn.qkv',
  attn_out: 'attn.proj',
  ln2: 'norm2',
  ffn_up: 'mlp.linear_fc1',
  ffn_down: 'mlp.linear_fc2',
}
const DEEPSTACK_PARTS = { norm: 'norm', fc1: 'linear_fc1', fc2: 'linear_fc2' }

/**
 * The image encoder of `Qwen3VLForConditionalGeneration`.
 * @throws Error for a tensor that is missing or does not fit.
 */
export function visionWeights(source: SourceFile, shape: ModelShape): Weight[] {
  const { layers, deepstack } = shape.vision
  const linear = (from: string, to: string) =>
    ['weight', 'bias'].map((part) => source.take(`${from}.${part}`, `${VISUAL}.${to}.${part}`))
  const kernels = ['weight', 'weight.1'].map((part) => source.take(`v.patch_embd.${part}`, `v.patch_embd.${part}`))
  const weights = [
    joinedFrames(`${VISUAL}.patch_embed.proj.weight`, kernels[0]!, kernels[1]!),
    source.take('v.patch_embd.bias', `${VISUAL}.patch_embed.proj.bias`),
    source.take('v.position_embd.weight', `${VISUAL}.pos_embed.weight`),
    ...linear('v.post_ln', 'merger.norm'),
    ...squareMerger(source, linear('mm.0', 'merger.linear_fc1'), linear('mm.2', 'merger.linear_fc2'), shape),
  ]
  for (let layer = 0; layer < layers; layer++) {
    for (const [from, to] of Object.entries(LAYER_PARTS)) {
      weights.push(...linear(`v.blk.${layer}.${from}`, `blocks.${layer}.${to}`))
    }
  }
  for (const [index, layer] of deepstack.entries()) {
    for (const [from, to] of Object.entries(DEEPSTACK_PARTS)) {
      weights.push(...linear(`v.deepstack.${layer}.${from}`, `deepstack_merger_list.${index}.${to}`))
    }
  }
  return weights
}

/**
 * The merger with as many hidden dimensions as inputs, as Transformers' class requires. The file may have fewer: the
 * added ones are zero, and so is their GELU.
 */
function squareMerger(
  source: SourceFile,
  first: readonly Weight[],
  second: readonly Weight[],
  { language, vision }: ModelShape,
): Weight[] {
  const width = vision.width * vision.merge ** 2
  const [hidden, inputs] = first[0]!.shape
  const [outputs, taken] = second[0]!.shape
  if (inputs !== width || hidden! > width || taken !== hidden || outputs !== language.width) {
    throw source.error(
      `the merger maps ${inputs} to ${hidden} and ${taken} to ${outputs} numbers; Transformers' class cannot, for ${width} numbers of patches and ${language.width} of a token`,
    )
  }
  const [weight, bias] = first
  return [padded(weight!, [width, width]), padded(bias!, [width]), padded(second[0]!, [outputs, width]), second[1]!]
}
