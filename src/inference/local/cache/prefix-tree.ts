import type { PrefixKey } from './prefix-key.ts'

/** Cells that all items below have in common, after those of the node above. */
interface Node<Item> {
  /** Null for the start of all sequences. */
  parent: Node<Item> | null
  symbols: Int32Array
  /** Cells from the start of a sequence to the end of this node. */
  end: number
  /** By the first symbol of each. */
  readonly children: Map<number, Node<Item>>
  /** Those whose key ends here. */
  readonly items: Set<Item>
}

interface Place<Item> {
  readonly organisation: string
  readonly node: Node<Item>
}

/**
 * Finds the items whose keys begin like another key, for each organisation: a radix tree over the cells of keys. A lookup
 * takes as long as the key that is looked up, however many items there are.
 */
export class PrefixTree<Item> {
  readonly #roots = new Map<string, Node<Item>>()
  readonly #places = new Map<Item, Place<Item>>()

  get size(): number {
    return this.#places.size
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
    this.#places.set(item, { organisation, node })
  }

  delete(item: Item): void {
    const place = this.#places.get(item)
    if (place === undefined) return
    this.#places.delete(item)
    place.node.items.delete(item)
    const root = prune(place.node)
    if (root !== null && root.children.size === 0 && root.items.size === 0) this.#roots.delete(place.organisation)
  }

  /**
   * One of the items that have most in common with the key, then those that are a prefix of it, longest first. Media count
   * as equal when the hashes of their keys are: `PrefixKey.commonPrefix` is exact.
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

/** Makes a node known to the one above. */
function attach<Item>(node: Node<Item>): Node<Item> {
  node.parent!.children.set(node.symbols[0]!, node)
  return node
}

/** How many of a node's symbols are those of a key. */
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

/** Removes what leads to no item any more. @returns the root, if all above was removed. */
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

/** Replaces a node and its only child by one. */
function join<Item>(node: Node<Item>): void {
  const [child] = node.children.values()
  const symbols = new Int32Array(node.symbols.length + child!.symbols.length)
  symbols.set(node.symbols)
  symbols.set(child!.symbols, node.symbols.length)
  child!.symbols = symbols
  child!.parent = node.parent
  attach(child!)
}

/** An item that begins with all down to the node. Every node leads to one, unless the tree is empty. */
function anyItem<Item>(node: Node<Item>): Item | null {
  let below: Node<Item> | undefined = node
  while (below !== undefined) {
    for (const item of below.items) return item
    below = below.children.values().next().value
  }
  return null
}
