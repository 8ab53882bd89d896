import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FakeContext } from '../../../../test/support/fake-context.ts'
import { KvCache, type KvSequence, START } from './kv-cache.ts'

test('counts every cell once after any order of forks, cuts, saves, restores, growth, shrinking and releases', () => {
  const operation = fc.record({
    kind: fc.constantFrom('fork', 'cut', 'grow', 'grow', 'shrink', 'release', 'empty', 'restore'),
    which: fc.nat(),
    size: fc.nat(9),
  })
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
      const context = new FakeContext()
      const kv = new KvCache(context, 100)
      const sequences: KvSequence[] = []
      /** Cells that a sequence has grown by since it was last forked. */
      const own = new Map<KvSequence, number>()
      for (const { kind, which, size } of operations) {
        const sequence = sequences[which % Math.max(1, sequences.length)]
        const { usedCells } = kv
        if (kind === 'empty' || sequence === undefined) sequences.push(kv.fork(null))
        else if (kind === 'fork') {
          sequences.push(kv.fork(sequence))
          own.set(sequence, 0)
        } else if (kind === 'cut') {
          const cells = Math.min(size, sequence.cells)
          sequences.push(kv.fork(sequence, { cells, position: cells }))
          own.set(sequence, Math.min(own.get(sequence) ?? 0, sequence.cells - cells))
        } else if (kind === 'restore') {
          // Two parts that overlap.
          const cut = (share: number) => {
            const cells = Math.floor(share * sequence.cells)
            return { cells, position: cells }
          }
          const [end, middle, start] = [cut(size / 9), cut(size / 20), cut(size / 30)]
          const parts = [
            { saved: kv.save(sequence, START, cut(1)), end: start },
            { saved: kv.save(sequence, start, cut(1)), end: middle },
            { saved: kv.save(sequence, middle, cut(1)), end },
          ]
          expect(parts.map(({ saved }) => saved.state.length)).toEqual(
            parts.map(({ saved }) => kv.measure(sequence, saved.from, saved.to)),
          )
          const restored = kv.restore(parts.filter(({ saved, end: { cells } }) => cells > saved.from.cells))
          expect(context.positionsOf(restored.id)).toEqual(Array.from({ length: end.cells }, (_, i) => i))
          sequences.push(restored)
        } else if (kind === 'grow') {
          context.fill(sequence.id, sequence.position, size)
          kv.grow(sequence, size, size)
          own.set(sequence, (own.get(sequence) ?? 0) + size)
        } else if (kind === 'shrink') {
          const cells = Math.min(size, own.get(sequence) ?? 0)
          const left = sequence.cells - cells
          kv.shrink(sequence, cells)
          own.set(sequence, (own.get(sequence) ?? 0) - cells)
          expect([sequence.cells, sequence.position, usedCells - kv.usedCells]).toEqual([left, left, cells])
          expect(context.positionsOf(sequence.id).toSorted((a, b) => a - b)).toEqual(
            Array.from({ length: left }, (_, i) => i),
          )
        } else {
          const freed = kv.cellsFreedBy([sequence])
          sequences.splice(sequences.indexOf(sequence), 1)
          kv.release(sequence)
          expect(usedCells - kv.usedCells).toBe(freed)
        }
        expect(kv.usedCells).toBe(context.used)
      }
      expect(kv.cellsFreedBy(sequences)).toBe(kv.usedCells)
      for (const sequence of sequences) kv.release(sequence)
      expect([kv.usedCells, kv.freeSequences]).toEqual([0, 100])
    }),
  )
})

test('removes a sequence that the library refuses to restore', () => {
  const context = new FakeContext()
  const kv = new KvCache(context, 2)
  const sequence = kv.fork(null)
  context.fill(sequence.id, 0, 20)
  kv.grow(sequence, 20, 20)
  const [middle, end] = [
    { cells: 10, position: 10 },
    { cells: 20, position: 20 },
  ]
  const whole = { saved: kv.save(sequence, START, middle), end: middle }
  const refused = { saved: { from: middle, to: end, onlyCut: null, state: new Uint8Array(10) }, end }
  expect(() => kv.restore([whole, refused])).toThrow()
  expect([kv.usedCells, context.used, kv.freeSequences]).toEqual([20, 20, 1])
})

test('a sequence is released once, and cannot be used afterwards', () => {
  const kv = new KvCache(new FakeContext(), 2)
  const sequence = kv.fork(null)
  kv.grow(sequence, 3, 3)
  kv.release(sequence)
  expect(() => kv.release(sequence)).toThrow('Sequence 0 was released.')
  expect(() => kv.grow(sequence, 1, 1)).toThrow('Sequence 0 was released.')
  expect(() => kv.fork(sequence)).toThrow('Sequence 0 was released.')
  expect([kv.usedCells, kv.usedSequences, kv.freeSequences]).toEqual([0, 0, 2])
})

test('shrinking never frees shared cells, nor state that cannot be cut', () => {
  const kv = new KvCache(new FakeContext(), 3, 10)
  const sequence = kv.fork(null)
  kv.grow(sequence, 6, 6)
  kv.fork(sequence, { cells: 4, position: 4 })
  expect(() => kv.shrink(sequence, 3)).toThrow('Sequence 0 shares the cells that are to be freed.')
  kv.shrink(sequence, 2)
  expect([kv.usedCells, kv.mayShrink(sequence, 6), kv.mayShrink(sequence, 7)]).toEqual([4, true, false])
})
