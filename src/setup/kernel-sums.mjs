// node kernel-sums.mjs GGML_BASE GGML LIBRARY: runs calculations on the compiled kernels, or on a GPU backend, and
// compares the results with plain arithmetic. Prints the problem, or `right`. `kernel-check.mjs` starts it in a
// separate process.
import koffi from 'koffi'

const [, , ggmlBase, ggml, library] = process.argv
koffi.load(ggmlBase, { global: true })
koffi.load(ggml, { global: true })
const base = koffi.load(ggmlBase)

const P = 'void *'
const parameters = koffi.struct({ mem_size: 'size_t', mem_buffer: P, no_alloc: 'bool' })
const sizes = ['int64', 'int64', 'int64', 'int64']
const init = base.func('ggml_init', P, [parameters])
const free = base.func('ggml_free', 'void', [P])
const newTensor = base.func('ggml_new_tensor_4d', P, [P, 'int', ...sizes])
const rowSize = base.func('ggml_row_size', 'size_t', ['int', 'int64'])
const quantize = base.func('ggml_quantize_chunk', 'size_t', ['int', P, P, 'int64', 'int64', 'int64', P])
const multiply = base.func('ggml_mul_mat', P, [P, P, P])
const attend = base.func('ggml_flash_attn_ext', P, [P, P, P, P, P, 'float', 'float', 'float'])
const newGraph = base.func('ggml_new_graph', P, [P])
const expand = base.func('ggml_build_forward_expand', 'void', [P, P])
const compute = base.func('ggml_backend_graph_compute', 'int', [P, P])
const allocate = base.func('ggml_backend_alloc_ctx_tensors_from_buft', P, [P, P])
const freeBuffer = base.func('ggml_backend_buffer_free', 'void', [P])
const set = base.func('ggml_backend_tensor_set', 'void', [P, P, 'size_t', 'size_t'])
const get = base.func('ggml_backend_tensor_get', 'void', [P, P, 'size_t', 'size_t'])
const deviceOf = base.func('ggml_backend_reg_dev_get', P, [P, 'size_t'])
const addressOf = base.func('ggml_backend_reg_get_proc_address', P, [P, 'str'])
const plainBuffers = base.func('ggml_backend_dev_buffer_type', P, [P])
const supports = base.func('ggml_backend_dev_supports_op', 'bool', [P, P])

const F32 = 0
const F16 = 1
/** Types of weights: ggml's number, and its dequantisation function. */
const WEIGHTS = [
  { name: 'F16', type: F16, toFloats: 'ggml_fp16_to_fp32_row' },
  { name: 'Q4_0', type: 2, toFloats: 'dequantize_row_q4_0' },
  { name: 'Q8_0', type: 8, toFloats: 'dequantize_row_q8_0' },
  { name: 'Q4_K', type: 12, toFloats: 'dequantize_row_q4_K' },
  { name: 'Q6_K', type: 14, toFloats: 'dequantize_row_q6_K' },
].map((weights) => ({ ...weights, toFloats: base.func(weights.toFloats, 'void', [P, P, 'int64']) }))
/**
 * Permitted errors, as fractions of the largest number in a result. Kernels round the other factor of a product to 8
 * bits.
 */
const PRODUCT_ERROR = 0.03
const ATTENTION_ERROR = 0.001
/** Without a mask, ggml's own attention may run, whose sums are in f16. */
const STOCK_ATTENTION_ERROR = 0.01
/** One token, a few, and enough to fill a tile. */
const ROWS = [1, 5, 64]
const WIDTH = 512
const HEIGHT = 128
const ARENA_BYTES = 2 ** 20
const THREADS = 2

const { registry, device, backend, likeliest } = open()
const random = randomNumbers(1)

console.log(device === null ? 'it finds no device' : (sums() ?? 'right'))

/**
 * Opens a backend of ggml, with its registry and device, and the function that chooses a token if the library has it.
 */
function open() {
  const own = koffi.load(library)
  try {
    const likeliest = own.func('lookout_argmax', 'int32', [P, 'int32', P])
    const backend = own.func('ggml_backend_cpu_init', P, [])()
    own.func('ggml_backend_cpu_set_n_threads', 'void', [P, 'int'])(backend, THREADS)
    const registry = own.func('ggml_backend_cpu_reg', P, [])()
    return { registry, device: deviceOf(registry, 0), backend, likeliest }
  } catch {
    // The library is not our kernels but a GPU backend.
  }
  const registry = koffi.load(ggml).func('ggml_backend_load', P, ['str'])(library)
  if (registry === null) throw new Error('ggml cannot load it')
  const count = base.func('ggml_backend_reg_dev_count', 'size_t', [P])(registry)
  const device = count === 0 ? null : deviceOf(registry, 0)
  const backend = device && base.func('ggml_backend_dev_init', P, [P, 'str'])(device, null)
  return { registry, device, backend, likeliest: null }
}

/** The problem, or null. */
function sums() {
  for (const weights of WEIGHTS) {
    for (const [layout, buffers] of bufferTypes()) {
      for (const rows of ROWS) {
        if (!(productError(weights, buffers, rows) <= PRODUCT_ERROR))
          return `a product of ${weights.name} weights (${layout}) is wrong`
      }
    }
  }
  // A GPU's sums are in f16.
  const most = likeliest === null ? STOCK_ATTENTION_ERROR : ATTENTION_ERROR
  for (const rows of [1, 40]) if (!(attentionError(rows, true) <= most)) return 'attention is wrong'
  if (!(attentionError(40, false) <= STOCK_ATTENTION_ERROR)) return 'attention without a mask is wrong'
  return likeliest === null || choiceIsRight() ? null : 'the likeliest token is wrong'
}

/**
 * Possible memory of weights: in the layout of their file, and in those to which the kernels convert them (AMX,
 * repacked).
 */
function bufferTypes() {
  const found = [['as stored', plainBuffers(device)]]
  const address = addressOf(registry, 'ggml_backend_dev_get_extra_bufts')
  const list = address && koffi.call(address, koffi.proto(P, [P]), device)
  for (let i = 0; list; i++) {
    const type = koffi.decode(list, i * koffi.sizeof(P), P)
    if (!type) break
    found.push([`changed layout ${i + 1}`, type])
  }
  return found
}

/** The largest error of a product, as a fraction of the largest number in it; 0 if the kernels do not support it. */
function productError({ type, toFloats }, buffers, rows) {
  const weights = newContext()
  const rest = newContext()
  const matrix = newTensor(weights, type, WIDTH, HEIGHT, 1, 1)
  const input = newTensor(rest, F32, WIDTH, rows, 1, 1)
  const result = multiply(rest, matrix, input)
  const storage = [allocate(weights, buffers)]
  try {
    if (!storage[0] || !supports(device, result)) return 0
    storage.push(allocate(rest, plainBuffers(device)))
    const a = Float32Array.from({ length: WIDTH * HEIGHT }, () => random() - 0.5)
    const b = Float32Array.from({ length: WIDTH * rows }, () => random() - 0.5)
    const packed = new Uint8Array(Number(rowSize(type, WIDTH)) * HEIGHT)
    quantize(type, a, packed, 0, HEIGHT, WIDTH, null)
    toFloats(packed, a, a.length)
    set(matrix, packed, 0, packed.length)
    set(input, b, 0, b.byteLength)
    const found = run(rest, result, HEIGHT * rows)
    const truth = new Float32Array(HEIGHT * rows)
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < HEIGHT; i++) {
        let sum = 0
        for (let d = 0; d < WIDTH; d++) sum += a[i * WIDTH + d] * b[row * WIDTH + d]
        truth[row * HEIGHT + i] = sum
      }
    }
    return largestError(found, truth)
  } finally {
    for (const buffer of storage) if (buffer) freeBuffer(buffer)
    free(rest)
    free(weights)
  }
}

/** The same for attention over f16 keys and values: each row attends to some of them, or without a mask to all. */
function attentionError(rows, isMasked) {
  const [width, cells, heads] = [64, 256, 2]
  const context = newContext()
  const keys = newTensor(context, F16, width, cells, 1, 1)
  const values = newTensor(context, F16, width, cells, 1, 1)
  const mask = newTensor(context, F16, cells, rows, 1, 1)
  const queries = newTensor(context, F32, width, rows, heads, 1)
  const scale = width ** -0.5
  const result = attend(context, queries, keys, values, isMasked ? mask : null, scale, 0, 0)
  const storage = allocate(context, plainBuffers(device))
  try {
    if (!supports(device, result)) return 0
    const [k, v] = [keys, values].map((tensor) => {
      // Multiples of 1/64 below 2 are exact in f16.
      const numbers = Float32Array.from({ length: width * cells }, () => Math.floor(random() * 256 - 128) / 64)
      setHalves(tensor, numbers)
      return numbers
    })
    const seen = (row, cell) => !isMasked || cell === 0 || (cell + row) % 3 !== 0
    const hidden = Float32Array.from({ length: cells * rows }, (_, i) =>
      seen(Math.floor(i / cells), i % cells) ? 0 : Number.NEGATIVE_INFINITY,
    )
    setHalves(mask, hidden)
    const q = Float32Array.from({ length: width * rows * heads }, () => random() * 2 - 1)
    set(queries, q, 0, q.byteLength)
    const found = run(context, result, q.length)
    const truth = new Float32Array(q.length)
    for (let row = 0; row < rows; row++) {
      for (let head = 0; head < heads; head++) {
        const scores = Array.from({ length: cells }, (_, cell) => {
          if (!seen(row, cell)) return Number.NEGATIVE_INFINITY
          let dot = 0
          for (let d = 0; d < width; d++) dot += q[(head * rows + row) * width + d] * k[cell * width + d]
          return dot * scale
        })
        const highest = Math.max(...scores)
        const weights = scores.map((score) => Math.exp(score - highest))
        const total = weights.reduce((sum, weight) => sum + weight)
        for (let d = 0; d < width; d++) {
          let sum = 0
          for (let cell = 0; cell < cells; cell++) sum += (weights[cell] / total) * v[cell * width + d]
          truth[(row * heads + head) * width + d] = sum
        }
      }
    }
    return largestError(found, truth)
  } finally {
    if (storage) freeBuffer(storage)
    free(context)
  }
}

function choiceIsRight() {
  const logits = Float32Array.from({ length: 1000 }, () => random())
  logits[700] = 3
  logits[33] = 2
  const onlyBelow512 = new Int32Array(32).fill(-1, 0, 16)
  return likeliest(logits, logits.length, null) === 700 && likeliest(logits, logits.length, onlyBelow512) === 33
}

function newContext() {
  return init({ mem_size: ARENA_BYTES, mem_buffer: null, no_alloc: true })
}

function setHalves(tensor, numbers) {
  const halves = new Uint8Array(numbers.length * 2)
  quantize(F16, numbers, halves, 0, 1, numbers.length, null)
  set(tensor, halves, 0, halves.length)
}

function run(context, result, count) {
  const graph = newGraph(context)
  expand(graph, result)
  const code = compute(backend, graph)
  if (code !== 0) throw new Error(`ggml computes nothing (code ${code})`)
  const found = new Float32Array(count)
  get(result, found, 0, found.byteLength)
  return found
}

function largestError(found, truth) {
  let furthest = 0
  let largest = 0
  for (let i = 0; i < truth.length; i++) {
    const error = Math.abs(found[i] - truth[i])
    if (!(error <= furthest)) furthest = error
    largest = Math.max(largest, Math.abs(truth[i]))
  }
  return furthest / largest
}

/** Pseudo-random numbers between 0 and 1 (xorshift). */
function randomNumbers(seed) {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}
