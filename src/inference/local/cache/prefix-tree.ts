import type { PrefixKey } from './prefix-key.ts'

/** Cells that all items below share, after those of the parent. */
interface Node<Item> {
  /** Null for the start of all sequences. */
  parent: Node<Item> | null
  symbols: Int32Array
  /** Cells from the start of a sequence to the end of this node. */
  end: number
  /** By the first symbol of each. */
  readonly children: Map<number, Node<Item>>
  /** Items whose keys end here. */
  readonly items: Set<Item>
}

interface Location<Item> {
  readonly organisation: string
  readonly node: Node<Item>
}

/**
 * Finds the items whose keys share a prefix with another key, per organisation: a radix tree over the cells of keys. The time
 * of a lookup depends on the length of its key, not on the number of items.
 */
export class PrefixTree<Item> {
  readonly #roots = new Map<string, Node<Item>>()
  readonly #locations = new Map<Item, Location<Item>>()

  get size(): number {
    return this.#locations.size
  }

  add(organisation: string, key: PrefixKey, item: Item): void {
    const { symbols } = key
    const root = this.#roots.get(organisation) ?? newNode<Item>(null, new Int32Array(0))
    this.#roots.set(organisation, root)
    let node = root
    while (node.end < symbols.length) {
      const child: Node<Item> | undefined = node.children.get(symbols[node.end]!)
      if (child === undefined) node = attach(newNode(node, symbols.subarray(node.end)))
      else {
        const alike: number = countAlike(child, symbols)
        node = alike === child.symbols.length ? child : split(child, alike)
      }
    }
    node.items.add(item)
    this.#locations.set(item, { organisation, node })
  }

  delete(item: Item): void {
    const location = this.#locations.get(item)
    if (location === undefined) return
    this.#locations.delete(item)
    location.node.items.delete(item)
    const root = prune(location.node)
    if (root !== null && root.children.size === 0 && root.items.size === 0) this.#roots.delete(location.organisation)
  }

  /**
   * An item with the longest common prefix, then the items that are prefixes of the key, longest first. Media count as equal
   * if the hashes of their keys are: `PrefixKey.commonPrefix` is exact.
   */
  *find(organisation: string, key: PrefixKey): Generator<Item, void> {
    const { symbols } = key
    const root = this.#roots.get(organisation)
    if (root === undefined) return
    let node = root
    let whole = root
    while (node === whole && node.end < symbols.length) {
      const child: Node<Item> | undefined = node.children.get(symbols[node.end]!)
      if (child === undefined) break
      node = child
      if (countAlike(child, symbols) === child.symbols.length) whole = child
    }
    const longest = anyItem(node)
    if (longest !== null) yield longest
    for (let above: Node<Item> | null = whole; above !== null; above = above.parent) {
      for (const item of above.items) if (item !== longest) yield item
    }
  }
}

function newNode<Item>(parent: Node<Item> | null, symbols: Int32Array): Node<Item> {
  return { parent, symbols, end: (parent?.end ?? 0) + symbols.length, children: new Map(), items: new Set() }
}

/** Adds a node to its parent's children. */
function attach<Item>(node: Node<Item>): Node<Item> {
  node.parent!.children.set(node.symbols[0]!, node)
  return node
}

/** Number of a node's symbols that equal those of a key. */
function countAlike<Item>({ symbols, end }: Node<Item>, other: Int32Array): number {
  const start = end - symbols.length
  const most = Math.min(symbols.length, other.length - start)
  let alike = 0
  while (alike < most && symbols[alike] === other[start + alike]) alike++
  return alike
}

/** Cuts a node in two. @returns the upper part. */
function split<Item>(node: Node<Item>, at: number): Node<Item> {
  const upper = attach(newNode(node.parent, node.symbols.subarray(0, at)))
  node.parent = upper
  node.symbols = node.symbols.subarray(at)
  attach(node)
  return upper
}

/** Removes a node and its ancestors as far as they lead to no item. @returns the root, if all of them were removed. */
function prune<Item>(node: Node<Item>): Node<Item> | null {
  const { parent } = node
  if (parent === null) return node
  if (node.items.size > 0) return null
  if (node.children.size === 0) {
    parent.children.delete(node.symbols[0]!)
    return prune(parent)
  }
  if (node.children.size === 1) join(node)
  return null
}

/** Merges a node with its only child. */
function join<Item>(node: Node<Item>): void {
  const [child] = node.children.values()
  const symbols = new Int32Array(node.symbols.length + child!.symbols.length)
  symbols.set(node.symbols)
  symbols.set(child!.symbols, node.symbols.length)
  child!.symbols = symbols
  child!.parent = node.parent
  attach(child!)
}

/** Any item below the node. Every node leads to one, unless the tree is empty. */
function anyItem<Item>(node: Node<Item>): Item | null {
  let below: Node<Item> | undefined = node
  while (below !== undefined) {
    for (const item of below.items) return item
    below = below.children.values().next().value
  }
  return null
}
