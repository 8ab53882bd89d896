import fc from 'fast-check'
import { expect, test } from 'vitest'
import { KvCache, type Sequence } from './kv-cache.ts'

/** Keeps the truth about cells the way the library does: every cell knows its sequences. */
class FakeContext {
  readonly cells = 10_000
  readonly sequencesOf: { readonly position: number; readonly sequences: Set<number> }[] = []

  forkSequence(source: number, target: number, end: number): void {
    for (const { position, sequences } of this.sequencesOf) {
      if (sequences.has(source) && position < end) sequences.add(target)
    }
  }

  removeSequence(sequence: number): void {
    for (const { sequences } of this.sequencesOf) sequences.delete(sequence)
  }

  get used(): number {
    return this.sequencesOf.filter(({ sequences }) => sequences.size > 0).length
  }
}

test('counts every cell once, whatever is forked, cut, grown and released, in whatever order', () => {
  const operation = fc.record({
    kind: fc.constantFrom('fork', 'cut', 'grow', 'grow', 'release', 'empty'),
    which: fc.nat(),
    size: fc.nat(9),
  })
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
      const context = new FakeContext()
      const kv = new KvCache(context, 100)
      const sequences: Sequence[] = []
      for (const { kind, which, size } of operations) {
        const sequence = sequences[which % Math.max(1, sequences.length)]
        if (kind === 'empty' || sequence === undefined) sequences.push(kv.fork(null))
        else if (kind === 'fork') sequences.push(kv.fork(sequence))
        else if (kind === 'cut') {
          const cells = Math.min(size, sequence.cells)
          sequences.push(kv.fork(sequence, { cells, position: cells }))
        } else if (kind === 'grow') {
          for (let i = 0; i < size; i++) {
            context.sequencesOf.push({ position: sequence.position + i, sequences: new Set([sequence.id]) })
          }
          kv.grow(sequence, size, size)
        } else {
          sequences.splice(sequences.indexOf(sequence), 1)
          kv.release(sequence)
        }
        expect(kv.usedCells).toBe(context.used)
        expect(kv.countCells(sequences)).toBe(context.used)
      }
      for (const sequence of sequences) kv.release(sequence)
      expect([kv.usedCells, kv.freeSequences]).toEqual([0, 100])
    }),
  )
})
