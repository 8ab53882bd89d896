import koffi from 'koffi'
import { describe, expect, test } from 'vitest'
import { F16, F32, sumsOf } from '../../../../../test/support/ggml-sums.ts'
import { declareIn } from '../declare.ts'
import { bindKernels } from '../kernels.ts'
import { locateNativeLibraries } from '../native-paths.ts'
import type { Pointer } from '../structs.ts'

const { kernels, ggmlBase, ggml } = locateNativeLibraries()

const CELLS = 100
const WIDTH = 32
const I64 = 27
const ROW_BYTES = WIDTH * 2

describe.skipIf(kernels === null)('stamps of cells', () => {
  test.each([1, 2, 3])('count up in the order of the rows that %i threads write', (threads) => {
    using cache = makeCache('cache_k_l0')
    const cells = Array.from({ length: 40 }, (_, i) => (i * 37) % CELLS)
    cache.write('cache_k_l0', cells, threads)
    expect(cache.order()).toEqual(cells)
    // A cell that is written again is the last one.
    cache.write('cache_k_l0', [cells[5]!], threads)
    expect(cache.order()).toEqual([...cells.filter((_, i) => i !== 5), cells[5]])
  })

  test('are those of the first layer, for all layers of a cache', () => {
    using cache = makeCache('cache_k_l3', 'cache_v_l3', 'cache_k_l4')
    for (const name of ['cache_k_l3', 'cache_v_l3', 'cache_k_l4']) cache.write(name, [8, 2], 1)
    expect(cache.order('cache_k_l4')).toEqual([8, 2])
    expect(cache.stamps('cache_k_l4')).toEqual(cache.stamps('cache_k_l3'))
    expect(Math.max(...cache.stamps('cache_k_l3')!)).toBe(2)
    expect(cache.stamps('cache_v_l3')).toBeNull()
  })

  test('count up in the order in which copied cells are put back', () => {
    using cache = makeCache('cache_k_l0', 'cache_k_l1')
    cache.write('cache_k_l0', [0, 1, 2], 1)
    for (const name of ['cache_k_l0', 'cache_k_l1']) {
      cache.restore(name, 70, 3)
      cache.restore(name, 10, 2)
    }
    expect(cache.order()).toEqual([0, 1, 2, 70, 71, 72, 10, 11])
  })

  test('of a part of a cache begin with its first cell', () => {
    using cache = makeCache('cache_k_l0')
    cache.write('cache_k_l0', [3, 60, 61], 1)
    expect(cache.stamps('cache_k_l0', 60)!.slice(0, 3)).toEqual([2, 3, 0])
  })

  test('do not outlive their cache', () => {
    for (let i = 0; i < 3; i++) {
      using cache = makeCache('cache_k_l0')
      expect(cache.order()).toEqual([])
      cache.write('cache_k_l0', [4, 3], 1)
      expect(cache.order()).toEqual([4, 3])
    }
  })

  test('are those of one cache each', () => {
    using one = makeCache('cache_k_l0')
    using other = makeCache('cache_k_l0')
    one.write('cache_k_l0', [4, 3], 1)
    other.write('cache_k_l0', [9], 1)
    expect(one.order()).toEqual([4, 3])
    expect(other.order()).toEqual([9])
  })

  test('are not kept for other tensors, nor for sequences that have a part of the cache for themselves', () => {
    using cache = makeCache('weights', 'cache_r_l0')
    cache.write('weights', [1], 1)
    cache.write('cache_r_l0', [1], 1)
    expect([cache.stamps('weights'), cache.stamps('cache_r_l0')]).toEqual([null, null])
    using streams = makeCache({ name: 'cache_k_l0', streams: 2 })
    expect(streams.stamps('cache_k_l0')).toBeNull()
  })
})

/** Tensors of rows in one buffer, as llama.cpp makes them for a KV cache. */
function makeCache(...of: readonly (string | { name: string; streams: number })[]) {
  const { declare, compute } = sumsOf(kernels!, { ggmlBase, ggml })
  bindKernels(kernels!).clearWithZeroPages()
  const init = declare('pointer ggml_init(ggml_init_params params)')
  const free = declare('void ggml_free(pointer context)')
  const tensor = declare('pointer ggml_new_tensor_3d(pointer context, int type, int64 a, int64 b, int64 c)')
  const setName = declare('void ggml_set_name(pointer tensor, str name)')
  const allocate = declare('pointer ggml_backend_alloc_ctx_tensors_from_buft(pointer context, pointer type)')
  const mainMemory = declare('pointer ggml_backend_cpu_buffer_type()')
  const freeBuffer = declare('void ggml_backend_buffer_free(pointer buffer)')
  const setRows = declare('pointer ggml_set_rows(pointer context, pointer to, pointer rows, pointer cells)')
  const view = declare(
    'pointer ggml_view_2d(pointer context, pointer of, int64 width, int64 height, size_t rowBytes, size_t offset)',
  )
  const setBytes = declare('void ggml_backend_tensor_set(pointer to, bytes from, size_t offset, size_t size)')
  const stampsOf = declareIn(koffi.load(kernels!))('pointer? lookout_cell_stamps(pointer keys)')

  const context = init({ mem_size: 2 ** 20, mem_buffer: null, no_alloc: true })
  const tensors = new Map<string, Pointer>()
  const views = new Map<string, Pointer>()
  for (const one of of) {
    const { name, streams } = typeof one === 'string' ? { name: one, streams: 1 } : one
    tensors.set(name, tensor(context, F16, WIDTH, CELLS, streams))
    setName(tensors.get(name)!, name)
    views.set(name, view(context, tensors.get(name)!, WIDTH, CELLS, ROW_BYTES, 0))
  }
  const buffer = allocate(context, mainMemory())
  const first = typeof of[0] === 'string' ? of[0] : of[0]!.name

  const stamps = (name: string, start = 0): number[] | null => {
    const part = view(context, views.get(name)!, WIDTH, CELLS - start, ROW_BYTES, start * ROW_BYTES)
    const found = stampsOf(part)
    return found === null ? null : Array.from(new BigUint64Array(koffi.view(found, 8 * (CELLS - start))), Number)
  }
  return {
    stamps,
    /** Cells that were written, by their stamps. */
    order: (name = first) => {
      const all = stamps(name)!
      return [...all.keys()].filter((cell) => all[cell]! > 0).sort((a, b) => all[a]! - all[b]!)
    },
    write: (name: string, cells: readonly number[], threads: number) => {
      compute(threads, 0, (arena, filled) =>
        setRows(
          arena,
          tensors.get(name)!,
          filled(F32, [WIDTH, cells.length], new Float32Array(WIDTH * cells.length)),
          filled(I64, [cells.length], BigInt64Array.from(cells, BigInt)),
        ),
      )
    },
    restore: (name: string, cell: number, count: number) => {
      setBytes(views.get(name)!, new Uint8Array(count * ROW_BYTES), cell * ROW_BYTES, count * ROW_BYTES)
    },
    [Symbol.dispose]: () => {
      freeBuffer(buffer)
      free(context)
    },
  }
}
