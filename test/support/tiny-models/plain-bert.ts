import type { WrittenFile } from '../gguf-writer.ts'
import { HEADS, LAYERS, WIDTH } from './embedding.ts'

type Rows = readonly Float64Array[]

/**
 * BERT's encoder as its paper has it, in double precision and without llama.cpp: the states of all tokens after the last
 * layer.
 */
export function plainBert({ tensors }: WrittenFile, tokens: readonly number[]): Rows {
  const read = (name: string) => {
    const { read: bytes } = tensors.find((tensor) => tensor.name === name)!
    const data = bytes() as Buffer
    return new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length))
  }
  const row = (name: string, index: number) => read(name).subarray(index * WIDTH, (index + 1) * WIDTH)
  const linear = (name: string, inputs: Rows): Rows => {
    const [weight, bias] = [read(`${name}.weight`), read(`${name}.bias`)]
    return inputs.map((input) =>
      Float64Array.from(bias, (start, output) =>
        input.reduce((sum, value, at) => sum + value * weight[output * input.length + at]!, start),
      ),
    )
  }
  const norm = (name: string, inputs: Rows): Rows => {
    const [weight, bias] = [read(`${name}.weight`), read(`${name}.bias`)]
    return inputs.map((input) => {
      const mean = input.reduce((sum, value) => sum + value, 0) / WIDTH
      const deviation = Math.sqrt(input.reduce((sum, value) => sum + (value - mean) ** 2, 0) / WIDTH)
      return input.map((value, at) => ((value - mean) / deviation) * weight[at]! + bias[at]!)
    })
  }
  const added = (a: Rows, b: Rows): Rows => a.map((one, index) => one.map((value, at) => value + b[index]![at]!))
  let states = norm(
    'token_embd_norm',
    tokens.map((token, position) => {
      const parts = [
        row('token_embd.weight', token),
        row('position_embd.weight', position),
        row('token_types.weight', 0),
      ]
      return Float64Array.from({ length: WIDTH }, (_, at) => parts.reduce((sum, part) => sum + part[at]!, 0))
    }),
  )
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = (part: string) => `blk.${layer}.${part}`
    const [queries, keys, values] = ['attn_q', 'attn_k', 'attn_v'].map((part) => linear(name(part), states)) as [
      Rows,
      Rows,
      Rows,
    ]
    const attended = queries.map((query) => attend(query, keys, values))
    states = norm(name('attn_output_norm'), added(linear(name('attn_output'), attended), states))
    const inner = linear(name('ffn_up'), states).map((one) => one.map(gelu))
    states = norm(name('layer_output_norm'), added(linear(name('ffn_down'), inner), states))
  }
  return states
}

/** The score of a pair by BERT's classifier on its first token. */
export function plainScore(file: WrittenFile, states: Rows): number {
  const read = (name: string) => {
    const data = file.tensors.find((tensor) => tensor.name === name)!.read() as Buffer
    return new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length))
  }
  const apply = (name: string, input: Float64Array) => {
    const weight = read(`${name}.weight`)
    return Float64Array.from(read(`${name}.bias`), (start, output) =>
      input.reduce((sum, value, at) => sum + value * weight[output * WIDTH + at]!, start),
    )
  }
  const [logit] = apply('cls.output', apply('cls', states[0]!).map(Math.tanh))
  return 1 / (1 + Math.exp(-logit!))
}

function attend(query: Float64Array, keys: Rows, values: Rows): Float64Array {
  const size = WIDTH / HEADS
  const result = new Float64Array(WIDTH)
  for (let head = 0; head < HEADS; head++) {
    const range = Array.from({ length: size }, (_, at) => head * size + at)
    const scores = keys.map((key) =>
      Math.exp(range.reduce((sum, at) => sum + query[at]! * key[at]!, 0) / Math.sqrt(size)),
    )
    const total = scores.reduce((sum, score) => sum + score, 0)
    for (const [token, score] of scores.entries())
      for (const at of range) result[at]! += (score / total) * values[token]![at]!
  }
  return result
}

/** With the approximation by tanh, which ggml computes. */
function gelu(value: number): number {
  return 0.5 * value * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (value + 0.044715 * value ** 3)))
}
