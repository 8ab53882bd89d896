import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { CARD } from '../../../../test/support/local-engine.ts'
import { type LocalModelCard, loadLocalCard } from '../../../models/card.ts'
import { cacheSizes } from './cache-sizes.ts'

const GIB = 2 ** 30
let card: LocalModelCard
beforeAll(async () => {
  card = await loadLocalCard(CARD)
})

test('with plenty of memory, the model decides: two KV caches, and 128 images of the largest size', () => {
  const needs = { kvCache: GIB, withoutCaches: 3 * GIB, embedding: 1024 }
  expect(cacheSizes(card, needs, {}, 100 * GIB)).toEqual({
    prefixCacheBytes: 2 * GIB,
    encoderCacheBytes: 128 * 200 * 1024,
  })
})

test('a model of 2B on a small machine gets a quarter and a sixteenth of the memory that it leaves free', () => {
  const needs = { kvCache: 4 * GIB, withoutCaches: 7 * GIB, embedding: 32_768 }
  expect(cacheSizes(card, needs, {}, 8 * GIB)).toEqual({ prefixCacheBytes: GIB / 4, encoderCacheBytes: GIB / 16 })
  // A limit is for all models together.
  expect(cacheSizes(card, needs, { memoryLimitBytes: 8 * GIB }, 100 * GIB)).toEqual({
    prefixCacheBytes: GIB / 16,
    encoderCacheBytes: GIB / 16,
  })
  expect(cacheSizes(card, needs, {}, 7 * GIB)).toEqual({ prefixCacheBytes: 0, encoderCacheBytes: 0 })
})

test('model and caches together fit the memory whenever the model does', () => {
  const size = fc.nat(100 * GIB)
  fc.assert(
    fc.property(size, size, size, fc.nat(100_000), fc.option(size), (available, kvCache, others, embedding, limit) => {
      const withoutCaches = kvCache + others
      const sizes = cacheSizes(card, { kvCache, withoutCaches, embedding }, { memoryLimitBytes: limit }, available)
      const taken = withoutCaches + sizes.prefixCacheBytes + sizes.encoderCacheBytes
      expect(taken).toBeLessThanOrEqual(Math.max(Math.min(available, limit ?? available), withoutCaches))
    }),
  )
})
