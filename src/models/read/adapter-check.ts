import { IGNORING_ADAPTERS, NO_PRODUCTS, WITHOUT_ADAPTERS } from '../../families/without-adapters.ts'
import type { GgufField, GgufHeader, GgufTensor } from './gguf.ts'

/** The `ggml_type`s of adapters: F32, F16, Q8_0 and BF16. */
const TYPES = [0, 1, 8, 30]
/** `ggml_type` of weights for which llama.cpp supports no adapters. */
const NVFP4 = 40
/** GGUF's number of the type of a field. */
const FLOAT32 = 6

/**
 * Why a LoRA adapter does not fit a model, as a predicate; null if it does. llama.cpp checks only some of this, and
 * crashes on the rest.
 * @param model headers of all parts of the model's file, the first one first.
 */
export function adapterProblem({ fields, tensors }: GgufHeader, model: readonly GgufHeader[]): string | null {
  const value = (key: string) => fields.get(key)?.value
  if (value('general.type') !== 'adapter' || value('adapter.type') !== 'lora') return 'is no LoRA adapter'
  const architecture = value('general.architecture')
  const wanted = model[0]!.fields.get('general.architecture')?.value
  if (architecture !== wanted) return `is for the architecture '${architecture}', and the model has '${wanted}'`
  if (fields.has('adapter.alora.invocation_tokens')) return 'is an activated LoRA adapter, which is not supported'
  if (!isFiniteFloat(fields.get('adapter.lora.alpha'))) return 'has no valid alpha'
  const weights = new Map(model.flatMap((part) => part.tensors).map((tensor) => [tensor.name, tensor]))
  const pairs = new Map<string, { a?: GgufTensor; b?: GgufTensor }>()
  for (const tensor of tensors) {
    // llama.cpp ignores them.
    if (tensor.name.endsWith('_norm.weight')) continue
    const [, name, side] = /^(.+)\.lora_([ab])$/.exec(tensor.name) ?? []
    if (name === undefined) return `has the tensor '${tensor.name}', which no LoRA adapter has`
    if (!TYPES.includes(tensor.type)) return `has the tensor '${tensor.name}' in a type that no LoRA adapter has`
    pairs.set(name, { ...pairs.get(name), [side!]: tensor })
  }
  if (pairs.size === 0) return 'has no tensors'
  const precise = [...pairs.keys()].find((name) => WITHOUT_ADAPTERS.get(String(architecture))?.test(name))
  if (precise !== undefined)
    return `changes '${precise}', which llama.cpp cannot do in the architecture '${architecture}'`
  // The output has no tensor of its own, and llama.cpp would apply changes of rows to columns.
  if (pairs.has('token_embd.weight') && !weights.has('output.weight'))
    return "changes 'token_embd.weight', which is also the output of the model: llama.cpp cannot do that"
  const ignoring = IGNORING_ADAPTERS.get(String(architecture))
  const ignored = [...pairs.keys()].find((name) => NO_PRODUCTS.test(name) || ignoring?.test(name))
  if (ignored !== undefined)
    return `changes '${ignored}', which llama.cpp would leave unchanged in the architecture '${architecture}'`
  for (const [name, { a, b }] of pairs) {
    const weight = weights.get(name)
    if (weight === undefined) return `changes '${name}', which the model does not have`
    if (a === undefined || b === undefined) return `has only half of what changes '${name}'`
    if (weight.type === NVFP4) return `changes '${name}', whose type NVFP4 takes no adapter`
    if (!fits(weight, a, b)) return `changes '${name}', which has another shape in the model`
  }
  return null
}

function isFiniteFloat(field: GgufField | undefined): boolean {
  return field === undefined || (field.bytes.readUInt32LE() === FLOAT32 && Number.isFinite(field.value))
}

/** Shapes begin with the innermost dimension. The rank is the dimension that both sides share. */
function fits({ name, shape }: GgufTensor, { shape: a }: GgufTensor, { shape: b }: GgufTensor): boolean {
  const [inputs, outputs] = shape
  const isOfTokens = name.endsWith('token_embd.weight')
  const rank = isOfTokens ? a[0] : a[1]
  if (shape.length < 2 || !(Number(rank) > 0) || b[0] !== rank) return false
  const experts = (sides: readonly number[]) => [2, 3].map((at) => sides[at] ?? 1).join()
  if (experts(a) !== experts(shape) || experts(b) !== experts(shape)) return false
  return isOfTokens ? a[1] === outputs && b[1] === inputs : a[0] === inputs && b[1] === outputs
}
