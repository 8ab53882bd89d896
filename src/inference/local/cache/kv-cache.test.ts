import fc from 'fast-check'
import { expect, test } from 'vitest'
import { KvCache, type KvSequence } from './kv-cache.ts'

/** Keeps the truth about cells the way the library does: every cell knows its sequences. */
class FakeContext {
  readonly cells = 10_000
  readonly #saved = new Map<Uint8Array, readonly number[]>()
  readonly sequencesOf: { readonly position: number; readonly sequences: Set<number> }[] = []

  forkSequence(source: number, target: number, end: number): void {
    for (const { position, sequences } of this.sequencesOf) {
      if (sequences.has(source) && position < end) sequences.add(target)
    }
  }

  removeSequence(sequence: number, start = 0): void {
    for (const { position, sequences } of this.sequencesOf) if (position >= start) sequences.delete(sequence)
  }

  saveSequence(sequence: number): Uint8Array {
    const held = this.sequencesOf.filter(({ sequences }) => sequences.has(sequence))
    const state = new Uint8Array()
    this.#saved.set(
      state,
      held.map(({ position }) => position),
    )
    return state
  }

  restoreSequence(sequence: number, state: Uint8Array): void {
    for (const position of this.#saved.get(state)!) {
      this.sequencesOf.push({ position, sequences: new Set([sequence]) })
    }
  }

  get used(): number {
    return this.sequencesOf.filter(({ sequences }) => sequences.size > 0).length
  }
}

test('counts every cell once, whatever is forked, cut, saved, restored, grown and released, in whatever order', () => {
  const operation = fc.record({
    kind: fc.constantFrom('fork', 'cut', 'grow', 'grow', 'release', 'empty', 'restore'),
    which: fc.nat(),
    size: fc.nat(9),
  })
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
      const context = new FakeContext()
      const kv = new KvCache(context, 100)
      const sequences: KvSequence[] = []
      for (const { kind, which, size } of operations) {
        const sequence = sequences[which % Math.max(1, sequences.length)]
        if (kind === 'empty' || sequence === undefined) sequences.push(kv.fork(null))
        else if (kind === 'fork') sequences.push(kv.fork(sequence))
        else if (kind === 'cut') {
          const cells = Math.min(size, sequence.cells)
          sequences.push(kv.fork(sequence, { cells, position: cells }))
        } else if (kind === 'restore') {
          const cells = Math.min(size, sequence.cells)
          sequences.push(kv.restore(kv.save(sequence), { cells, position: cells }))
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
      }
      for (const sequence of sequences) kv.release(sequence)
      expect([kv.usedCells, kv.freeSequences]).toEqual([0, 100])
    }),
  )
})

test('a sequence is released once, and not used after that', () => {
  const kv = new KvCache(new FakeContext(), 2)
  const sequence = kv.fork(null)
  kv.grow(sequence, 3, 3)
  kv.release(sequence)
  expect(() => kv.release(sequence)).toThrow('Sequence 0 was released.')
  expect(() => kv.grow(sequence, 1, 1)).toThrow('Sequence 0 was released.')
  expect(() => kv.fork(sequence)).toThrow('Sequence 0 was released.')
  expect([kv.usedCells, kv.usedSequences, kv.freeSequences]).toEqual([0, 0, 2])
})
