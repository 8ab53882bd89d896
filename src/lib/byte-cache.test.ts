import { expect, test } from 'vitest'
import { ByteCache } from './byte-cache.ts'

test('keeps what was used last within its size in bytes', () => {
  const cache = new ByteCache<Float32Array>(8, ({ byteLength }) => byteLength)
  cache.set('a', Float32Array.of(1))
  cache.set('b', Float32Array.of(2))
  cache.get('a')
  cache.set('c', Float32Array.of(3))
  expect(cache.get('b')).toBeUndefined()
  expect(cache.get('a')).toEqual(Float32Array.of(1))
  expect(cache.get('c')).toEqual(Float32Array.of(3))
})

test('does not keep what is larger than itself', () => {
  const cache = new ByteCache<Float32Array>(8, ({ byteLength }) => byteLength)
  cache.set('large', new Float32Array(3))
  expect(cache.get('large')).toBeUndefined()
})
