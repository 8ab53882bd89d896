import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FakeContext } from '../../../../test/support/fake-context.ts'
import { KvCache } from './kv-cache.ts'
import { PrefixKey } from './prefix-key.ts'
import { type RetainedSequence, RetainedSequences } from './retained-sequences.ts'

const SEQUENCES = 6

const keyOf = (tokens: readonly number[]) => PrefixKey.of([{ type: 'text', tokens: Int32Array.from(tokens) }])

/** @param cuttablePositions see `KvCache`. */
function setUp(cuttablePositions?: number) {
  const context = new FakeContext()
  const kv = new KvCache(context, SEQUENCES, cuttablePositions)
  const held = new Set<RetainedSequence>()
  const retained = new RetainedSequences(kv, (item) => held.delete(item))
  /** Computes the missing cells, and retains all. */
  const keep = (tokens: readonly number[], organisation = 'a') => {
    const key = keyOf(tokens)
    const match = retained.find(organisation, key)
    const sequence = kv.fork(match?.source.sequence ?? null, match?.cut)
    const rest = tokens.length - sequence.cells
    context.fill(sequence.id, sequence.position, rest)
    kv.grow(sequence, rest, rest)
    const item = retained.add(organisation, key, sequence)
    if (item !== null) held.add(item)
    kv.release(sequence)
    return item
  }
  const found = (tokens: readonly number[], organisation = 'a') =>
    retained.find(organisation, keyOf(tokens))?.cut.cells ?? 0
  return { context, kv, retained, held, keep, found }
}

const words = (name: number, cells: number): number[] => Array.from({ length: cells }, () => name)

const tokens = fc
  .array(fc.record({ name: fc.nat(1), cells: fc.integer({ min: 1, max: 20 }) }), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.flatMap(({ name, cells }) => words(name, cells)))
const operation = fc.record({
  kind: fc.constantFrom('keep', 'keep', 'keep', 'release', 'trim'),
  tokens,
  organisation: fc.constantFrom('a', 'b'),
})

test.each([undefined, 30, 0])('finds the longest prefix, and counts every cell once; cuttable: %s', (cuttable) => {
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 30 }), (operations) => {
      const { context, kv, retained, held, keep, found } = setUp(cuttable)
      for (const { kind, tokens, organisation } of operations) {
        const match = retained.find(organisation, keyOf(tokens))
        const longest = [...held].flatMap(({ organisation: owner, key, sequence }) => {
          const cut = key.commonPrefix(keyOf(tokens))
          return owner === organisation && kv.canCut(sequence, cut) ? [cut.cells] : []
        })
        const most = Math.max(0, ...longest)
        // If sequences cannot be cut, one of many with a common prefix decides for all.
        if (cuttable === undefined) expect(match?.cut.cells ?? 0).toBe(most < 16 ? 0 : most)
        else expect(match?.cut.cells ?? 0).toBeLessThanOrEqual(most)
        if (kind === 'keep' && kv.freeSequences > 1) {
          keep(tokens, organisation)
          expect(found(tokens, organisation)).toBe(tokens.length < 16 ? 0 : tokens.length)
        } else if (kind === 'trim' && match !== null) {
          const before = kv.usedCells
          const isTrimmed = retained.trim(match)
          if (isTrimmed) for (const item of retained.items()) held.add(item)
          expect(kv.usedCells).toBeLessThanOrEqual(before)
          expect(found(tokens, organisation)).toBe(match.cut.cells)
        } else {
          const next = retained.next()
          if (next !== null) retained.release(next)
        }
        expect(new Set(retained.items())).toEqual(held)
        expect([retained.cells(), retained.count]).toEqual([kv.usedCells, kv.usedSequences])
        expect(kv.usedCells).toBe(context.used)
      }
      for (let next = retained.next(); next !== null; next = retained.next()) retained.release(next)
      expect([kv.usedCells, kv.freeSequences, held.size]).toEqual([0, SEQUENCES, 0])
    }),
  )
})

test('the turns of a chat are one sequence; a regenerated answer is part of it if state can be cut', () => {
  const { kv, retained, keep, found } = setUp()
  const chat = [...words(1, 20), ...words(2, 20), ...words(3, 20)]
  for (const cells of [20, 40, 60]) keep(chat.slice(0, cells))
  expect([retained.count, kv.usedCells, found(chat)]).toEqual([1, 60, 60])
  expect(keep(chat.slice(0, 30))).toBeNull()
  expect([retained.count, kv.usedCells]).toEqual([1, 60])
  keep([...chat.slice(0, 40), ...words(4, 20)])
  expect([retained.count, kv.usedCells]).toEqual([2, 80])
})

test('every turn stays if state cannot be cut', () => {
  const { retained, keep, found } = setUp(0)
  const chat = [...words(1, 20), ...words(2, 20), ...words(3, 20)]
  for (const cells of [20, 40, 60]) keep(chat.slice(0, cells))
  expect([retained.count, found(chat.slice(0, 50))]).toEqual([3, 40])
})

test('an organisation evicts its own sequences before those of others', () => {
  const { retained, keep } = setUp()
  keep(words(1, 20), 'quiet')
  for (const name of [2, 3]) keep(words(name, 20), 'busy')
  expect(retained.next()!.organisation).toBe('busy')
  expect(retained.next()!.key.commonPrefix(keyOf(words(2, 20))).cells).toBe(20)
  keep(words(2, 20), 'busy')
  expect(retained.next()!.key.commonPrefix(keyOf(words(3, 20))).cells).toBe(20)
})
