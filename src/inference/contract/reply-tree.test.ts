import fc from 'fast-check'
import { expect, test } from 'vitest'
import { growTrees } from './reply-tree.ts'

const reply = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 5 })
const replies = fc.uniqueArray(reply, { selector: String, minLength: 1, maxLength: 12 })

test('trees hold every reply once, without the last token of those that may go on', () => {
  const property = fc.property(replies, fc.integer({ min: 5, max: 20 }), fc.boolean(), (all, nodes, goesOn) => {
    const limits = { nodes, leaves: 4 }
    const trees = growTrees(
      all.map((tokens) => Int32Array.from(tokens)),
      limits,
      goesOn,
    )
    const read = new Map<number, readonly number[]>()
    for (const tree of trees) {
      const paths: (readonly number[])[] = []
      for (const { token, parent } of tree.nodes) paths.push([...(paths[parent] ?? []), token])
      for (const { reply, node, token } of tree.ends) {
        expect(read.has(reply)).toBe(false)
        expect(token === null).toBe(!goesOn)
        read.set(reply, [...(paths[node] ?? []), ...(token === null ? [] : [token])])
      }
      // Each node leads to a reply, and each leaf is a sequence.
      const inner = new Set(tree.nodes.map(({ parent }) => parent))
      const ends = new Set(tree.ends.map(({ node }) => node))
      for (const node of tree.nodes.keys()) expect(inner.has(node) || ends.has(node)).toBe(true)
      expect(tree.leaves).toBe(Math.max(1, tree.nodes.filter((_, node) => !inner.has(node)).length))
      expect(tree.nodes.length).toBeLessThanOrEqual(nodes)
      expect(tree.leaves).toBeLessThanOrEqual(limits.leaves)
    }
    expect(all.map((_, index) => read.get(index))).toEqual(all)
  })
  fc.assert(property)
})
