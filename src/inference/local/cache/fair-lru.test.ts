import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FairLru } from './fair-lru.ts'

interface Item {
  readonly organisation: string
  readonly size: number
}

const operation = fc.record({
  kind: fc.constantFrom('add', 'add', 'touch', 'delete'),
  organisation: fc.constantFrom('a', 'b', 'c'),
  size: fc.integer({ min: 1, max: 20 }),
  which: fc.nat(),
})

test('evicts the least recently used item of the largest holder', () => {
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 40 }), fc.nat(), (operations, spare) => {
      const lru = new FairLru<Item>()
      let items: Item[] = []
      for (const { kind, organisation, size, which } of operations) {
        const item = items[which % Math.max(1, items.length)]
        if (kind === 'add' || item === undefined) {
          const added = { organisation, size }
          items.push(added)
          lru.add(added, size)
        } else if (kind === 'touch') {
          items = [...items.filter((other) => other !== item), item]
          lru.touch(item)
        } else {
          items = items.filter((other) => other !== item)
          lru.delete(item)
        }
        const held = (name: string) =>
          items.filter((other) => other.organisation === name).reduce((sum, other) => sum + other.size, 0)
        expect([lru.count, lru.size]).toEqual([items.length, held('a') + held('b') + held('c')])
        expect(new Set(lru.items())).toEqual(new Set(items))
        const spared = items[spare % Math.max(1, items.length)]
        const next = lru.next((other) => other === spared)
        const left = items.filter((other) => other !== spared)
        expect(next === null).toBe(left.length === 0)
        if (next === null) continue
        expect(held(next.organisation)).toBe(Math.max(...left.map((other) => held(other.organisation))))
        expect(next).toBe(left.find((other) => other.organisation === next.organisation))
      }
    }),
  )
})
