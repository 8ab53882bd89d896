import type { TypeRule } from '../../test/support/tiny-models/weights.ts'

/** Matrices in F16, and the rest as it was. */
export const F16: TypeRule = (name, shape) => (isMatrix(name, shape) ? 'F16' : 'F32')

/** Encoders as they are published in Q8_0: matrices in it, and the rest as it was. */
export const Q8_0: TypeRule = (name, shape) => (isMatrix(name, shape) ? 'Q8_0' : 'F32')

/**
 * The types that llama-quantize gives to a model in Q4_K_M whose output matrix is that of its token embeddings: Q4_K, or
 * Q6_K for what suffers most, or other types where a row is no multiple of 256.
 */
export function q4KM(layers: number): TypeRule {
  const eighth = Math.floor(layers / 8)
  const isCritical = (layer: number) =>
    layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2
  return (name, shape) => {
    if (!isMatrix(name, shape)) return 'F32'
    const part = /^blk\.(\d+)\.(attn_v|ffn_down|ffn_down_exps)\.weight$/.exec(name)
    const suffers = name === 'token_embd.weight' || (part !== null && isCritical(Number(part[1])))
    if (shape[0]! % 256 === 0) return suffers ? 'Q6_K' : 'Q4_K'
    return suffers ? 'Q8_0' : 'Q5_0'
  }
}

function isMatrix(name: string, shape: readonly number[]): boolean {
  const isStack = /_exps\.weight$/.test(name)
  return (
    isStack || (shape.length === 2 && /\.weight$/.test(name) && !/norm|gate_inp|position_embd|token_types/.test(name))
  )
}
