import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FakeContext } from '../../../../test/support/fake-context.ts'
import { fakeMedia } from '../../../../test/support/fake-media.ts'
import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import { KvCache, type KvSequence } from './kv-cache.ts'
import { type CachedPrefix, PrefixCache } from './prefix-cache.ts'
import { PrefixKey } from './prefix-key.ts'

const IMAGE_CELLS = 9
const IMAGE_POSITIONS = 3

const text = (...tokens: number[]): PromptChunk => ({ type: 'text', tokens: Int32Array.from(tokens) })
const image = (name: string): PromptChunk => fakeMedia(name, { length: IMAGE_CELLS, positions: IMAGE_POSITIONS })
/** Text of `cells` cells; the first token depends on the name. */
const words = (name: number, cells: number) => [text(...Array.from({ length: cells }, () => name))]

function setUp(limitBytes: number) {
  const context = new FakeContext()
  const kv = new KvCache(context, 10)
  const cache = new PrefixCache(kv, limitBytes)
  const compute = (chunks: readonly PromptChunk[]): KvSequence => {
    const sequence = kv.fork(null)
    for (const chunk of chunks) {
      const isImage = chunk.type === 'media'
      const cells = isImage ? IMAGE_CELLS : chunk.tokens.length
      context.fill(sequence.id, sequence.position, cells, isImage)
      kv.grow(sequence, cells, isImage ? IMAGE_POSITIONS : cells)
    }
    return sequence
  }
  /** @param pieceCells size of the pieces; all at once by default. */
  const keep = (chunks: readonly PromptChunk[], organisation = 'a', pieceCells = Number.POSITIVE_INFINITY) => {
    const sequence = compute(chunks)
    const begun = cache.begin(organisation, PrefixKey.of(chunks), sequence)
    if (begun !== null) {
      const copy = { ...begun, pieceCells }
      while (cache.copyNext(copy, sequence));
    }
    kv.release(sequence)
  }
  const found = (chunks: readonly PromptChunk[], organisation = 'a') =>
    cache.find(organisation, PrefixKey.of(chunks))?.cut.cells ?? 0
  const use = (chunks: readonly PromptChunk[]) => {
    const match = cache.find('a', PrefixKey.of(chunks))
    if (match !== null) kv.release(cache.restore(match))
  }
  return { context, kv, cache, compute, keep, found, use }
}

const chunks = fc.array(
  fc.oneof(
    fc.constantFrom('x', 'y').map(image),
    fc.record({ token: fc.nat(1), count: fc.integer({ min: 1, max: 40 }) }).map(({ token, count }) => {
      return text(...Array.from({ length: count }, () => token))
    }),
  ),
  { minLength: 1, maxLength: 6 },
)

test('finds the longest cached prefix, and restores exactly that, however it was divided', () => {
  const kept = fc.record({
    chunks,
    organisation: fc.constantFrom('a', 'b'),
    pieceCells: fc.integer({ min: 1, max: 50 }),
  })
  fc.assert(
    fc.property(fc.array(kept, { maxLength: 8 }), chunks, (items, wanted) => {
      const { context, kv, cache, keep, compute } = setUp(1e6)
      for (const item of items) keep(item.chunks, item.organisation, item.pieceCells)
      const key = PrefixKey.of(wanted)
      const longest = items
        .filter(({ organisation }) => organisation === 'a')
        .map((item) => PrefixKey.of(item.chunks).commonPrefix(key).cells)
      const match = cache.find('a', key)
      const most = Math.max(0, ...longest)
      expect(match?.cut.cells ?? 0).toBe(most < 16 ? 0 : most)
      expect(kv.usedCells).toBe(0)
      if (match === null) return
      const restored = cache.restore(match)
      const whole = compute(wanted)
      const { position, cells } = match.cut
      const expected = context.positionsOf(whole.id).filter((other) => other < position)
      expect(context.positionsOf(restored.id)).toEqual(expected)
      expect([restored.cells, restored.position]).toEqual([cells, position])
    }),
  )
})

test('never exceeds its limit in bytes, even during a copy', () => {
  const step = fc.record({
    chunks,
    organisation: fc.constantFrom('a', 'b'),
    pieceCells: fc.integer({ min: 1, max: 60 }),
    isUse: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.nat(300), fc.array(step, { maxLength: 20 }), (limit, steps) => {
      const { context, kv, cache, keep, use } = setUp(limit)
      context.onSave = (bytes) => expect(cache.bytes + bytes).toBeLessThanOrEqual(limit)
      for (const { chunks, organisation, pieceCells, isUse } of steps) {
        if (isUse) use(chunks)
        else keep(chunks, organisation, pieceCells)
        expect(cache.bytes).toBeLessThanOrEqual(limit)
        // A cell takes a byte.
        expect(cache.cells).toBe(cache.bytes)
        expect([kv.usedCells, context.used]).toEqual([0, 0])
      }
    }),
  )
})

test('does not copy a sequence larger than the cache, and removes nothing for it', () => {
  const { context, cache, keep, found } = setUp(100)
  keep(words(1, 60))
  keep(words(2, 40))
  context.onSave = () => expect.unreachable()
  keep(words(3, 101))
  keep([...words(1, 60), ...words(3, 41)])
  expect([found(words(1, 60)), found(words(2, 40)), cache.bytes]).toEqual([60, 40, 100])
  context.onSave = () => {}
  keep(words(3, 100))
  expect([found(words(3, 100)), cache.entries]).toEqual([100, 1])
})

test('evicts the least recently used piece first; a lookup is no use', () => {
  const { keep, found, use } = setUp(100)
  for (const name of [1, 2, 3]) keep(words(name, 30))
  use(words(1, 30))
  for (let i = 0; i < 5; i++) found(words(2, 30))
  keep(words(4, 30))
  expect([1, 2, 3, 4].map((name) => found(words(name, 30)))).toEqual([30, 0, 30, 30])
  // Saving the same cells again counts as use.
  keep(words(3, 30))
  keep(words(5, 30))
  expect([1, 3, 4, 5].map((name) => found(words(name, 30)))).toEqual([0, 30, 30, 30])
})

test('copies the turns of a chat once, and evicts their end before their beginning', () => {
  const { context, cache, keep, found } = setUp(120)
  const turns = [words(1, 40), words(2, 40), words(3, 30)].map((turn) => turn[0]!)
  let copied = 0
  context.onSave = (bytes) => {
    copied += bytes
  }
  for (const count of [1, 2, 3]) keep(turns.slice(0, count))
  expect([copied, cache.bytes, found(turns)]).toEqual([110, 110, 110])
  keep(words(4, 20))
  expect([found(turns), found(words(4, 20))]).toEqual([80, 20])
  expect(found(turns, 'b')).toBe(0)
})

test('ends a copy whose beginning was removed meanwhile', () => {
  const { kv, cache, compute, keep } = setUp(100)
  const key = PrefixKey.of(words(1, 90))
  const sequence = compute(words(1, 90))
  const copy = { ...cache.begin('a', key, sequence)!, pieceCells: 30 }
  expect(cache.copyNext(copy, sequence)).toBe(true)
  keep(words(2, 100))
  expect(cache.copyNext(copy, sequence)).toBe(false)
  expect(cache.bytes).toBe(100)
  kv.release(sequence)
})

test('adopts pieces that were saved elsewhere if it has their parents, and forgets whole sequences', () => {
  const [one, other] = [setUp(100), setUp(100)]
  const turns = [...words(1, 40), ...words(2, 40)]
  one.keep(turns, 'a', 40)
  const { source } = one.cache.find('a', PrefixKey.of(turns))!
  const adopt = (parent: CachedPrefix | null, { key, saved }: CachedPrefix) =>
    other.cache.adopt('a', parent, key, saved)
  const first = adopt(null, source.parent!)!
  expect([other.found(turns), other.cache.bytes]).toEqual([40, 40])
  const second = adopt(first, source)!
  expect([other.found(turns), other.cache.bytes, other.found(turns, 'b')]).toEqual([80, 80, 0])
  other.keep(words(3, 20), 'b')
  other.cache.forget(second)
  expect([other.found(turns), other.cache.bytes, other.found(words(3, 20), 'b')]).toEqual([0, 20, 20])
  expect(adopt(first, source)).toBeNull()
})

test('evicts pieces that are too short for a match like others', () => {
  const { cache, keep, found } = setUp(40)
  keep(words(1, 40), 'a', 5)
  expect([found(words(1, 40)), cache.entries]).toEqual([40, 8])
  for (const name of [2, 3]) {
    keep(words(name, 40), 'b', 40)
    expect([cache.bytes, cache.entries, found(words(1, 40)), found(words(name, 40), 'b')]).toEqual([40, 1, 0, 40])
    keep(words(1, 40), 'a', 5)
    expect([cache.bytes, found(words(1, 40))]).toEqual([40, 40])
  }
})

test('finds an exact copy only for its own sequence, and restores it to any KV cache', () => {
  const copied: CachedPrefix[] = []
  const context = new FakeContext()
  const kv = new KvCache(context, 10)
  const cache = new PrefixCache(new KvCache(new FakeContext(), 10), 1e6, (piece) => copied.push(piece))
  const keep = (cells: number) => {
    const sequence = kv.fork(null)
    context.fill(sequence.id, 0, cells)
    kv.grow(sequence, cells, cells)
    const copy = cache.begin('a', PrefixKey.of(words(1, cells)), sequence, { kv, isExact: true })!
    while (cache.copyNext(copy, sequence));
    kv.release(sequence)
  }
  const found = (cells: number) => cache.find('a', PrefixKey.of(words(1, cells)), true)
  keep(40)
  keep(60)
  expect([39, 41, 59, 60, 61].map((cells) => found(cells)?.cut.cells ?? 0)).toEqual([0, 0, 0, 60, 0])
  expect(found(60)!.source).toMatchObject({ parent: null })
  expect(cache.restore(found(60)!, kv).cells).toBe(60)
  expect(cache.find('a', PrefixKey.of(words(1, 60)))).toBeNull()
  expect(copied).toEqual([])
})
