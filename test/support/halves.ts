/** Numbers as f16 in memory. */
export function halves(numbers: Float32Array): Uint8Array {
  return new Uint8Array(new Float16Array(numbers).buffer)
}

/** The bits of a number as an f16; the number must be representable. */
export function half(value: number): number {
  if (value === Number.NEGATIVE_INFINITY) return 0xfc00
  if (value === 0) return 0
  const [bits] = new Uint32Array(new Float32Array([value]).buffer)
  return ((bits! >>> 16) & 0x8000) | ((((bits! >>> 23) & 0xff) - 127 + 15) << 10) | ((bits! >>> 13) & 0x3ff)
}
