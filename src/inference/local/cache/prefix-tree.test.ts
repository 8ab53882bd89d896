import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import { PrefixKey } from './prefix-key.ts'
import { PrefixTree } from './prefix-tree.ts'

const text = (tokens: readonly number[]): PromptChunk => ({ type: 'text', tokens: Int32Array.from(tokens) })
const keyOf = (tokens: readonly number[]) => PrefixKey.of([text(tokens)])

const tokens = fc.array(fc.nat(2), { maxLength: 12 })
const operation = fc.record({
  tokens,
  organisation: fc.constantFrom('a', 'b'),
  removes: fc.option(fc.nat(), { nil: null }),
})

test('finds an item with the longest common prefix, then all prefixes, longest first, after any additions and removals', () => {
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 30 }), tokens, (operations, wanted) => {
      const tree = new PrefixTree<{ readonly organisation: string; readonly key: PrefixKey }>()
      const items: { readonly organisation: string; readonly key: PrefixKey }[] = []
      const key = keyOf(wanted)
      for (const { tokens, organisation, removes } of operations) {
        if (removes !== null && items.length > 0) {
          const [item] = items.splice(removes % items.length, 1)
          tree.delete(item!)
        } else {
          const item = { organisation, key: keyOf(tokens) }
          items.push(item)
          tree.add(organisation, item.key, item)
        }
        expect(tree.size).toBe(items.length)
        const own = items.filter((item) => item.organisation === 'a')
        const common = (item: (typeof items)[number]) => item.key.commonPrefix(key).cells
        const [first, ...others] = [...tree.find('a', key)]
        expect(first === undefined).toBe(own.length === 0)
        if (first === undefined) return
        expect(own).toContain(first)
        expect(common(first)).toBe(Math.max(...own.map(common)))
        const prefixes = own.filter((item) => item !== first && common(item) === item.key.length)
        expect(new Set(others)).toEqual(new Set(prefixes))
        const lengths = others.map((item) => item.key.length)
        expect(lengths).toEqual(lengths.toSorted((a, b) => b - a))
      }
    }),
  )
})

test('a lookup compares no more cells than the key has, for any number of items with a common prefix', () => {
  let reads = 0
  const counted = (key: PrefixKey): PrefixKey => {
    const symbols = new Proxy(key.symbols, {
      get(target, name) {
        if (typeof name === 'string' && /^\d+$/.test(name)) reads++
        return Reflect.get(target, name, target)
      },
    })
    return Object.assign(Object.create(key) as PrefixKey, { symbols })
  }
  const tree = new PrefixTree<number>()
  const begin = Array.from({ length: 100 }, (_, i) => i)
  for (let item = 0; item < 5000; item++) tree.add('a', keyOf([...begin, item, item]), item)
  const found = tree.find('a', counted(keyOf([...begin, 1234, 7])))
  expect(found.next().value).toBe(1234)
  expect([...found]).toEqual([])
  expect(reads).toBeLessThan(200)
})
