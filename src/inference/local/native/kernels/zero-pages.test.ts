import { readFileSync } from 'node:fs'
import koffi from 'koffi'
import { describe, expect, test } from 'vitest'
import { declareIn } from '../declare.ts'
import { bindKernels } from '../kernels.ts'
import { locateNativeLibraries } from '../native-paths.ts'

/** Not a whole number of pages. */
const SIZE = 32 * 2 ** 20 + 1000

const { kernels, ggmlBase } = locateNativeLibraries()

describe.skipIf(kernels === null)('a buffer of the compiled kernels', () => {
  test('is zero in every byte after it was cleared, and takes no memory', () => {
    const { clear, bytes } = makeBuffer()
    bytes.fill(3)
    const full = residentBytes()
    clear(0)
    expect(residentBytes()).toBeLessThan(full - SIZE * 0.9)
    expect(bytes.every((byte) => byte === 0)).toBe(true)
  })

  test('holds another number than zero in every byte when it is cleared with that', () => {
    const { clear, bytes } = makeBuffer()
    bytes.fill(3)
    clear(7)
    expect(bytes.every((byte) => byte === 7)).toBe(true)
  })
})

/** A buffer in main memory, as ggml makes one for a KV cache. */
function makeBuffer(): { readonly clear: (value: number) => void; readonly bytes: Uint8Array } {
  const declare = declareIn(koffi.load(ggmlBase, { global: true }))
  bindKernels(kernels!).clearWithZeroPages()
  const typeOf = declare('pointer ggml_backend_cpu_buffer_type()')
  const alloc = declare('pointer ggml_backend_buft_alloc_buffer(pointer type, size_t size)')
  const baseOf = declare('pointer ggml_backend_buffer_get_base(pointer buffer)')
  const clear = declare('void ggml_backend_buffer_clear(pointer buffer, uint8 value)')
  const buffer = alloc(typeOf(), SIZE)
  return { clear: (value) => clear(buffer, value), bytes: new Uint8Array(koffi.view(baseOf(buffer), SIZE)) }
}

function residentBytes(): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]) * 1024
}
