interface Owner<Item> {
  size: number
  /** With their sizes; least recently used first. */
  readonly items: Map<Item, number>
}

/**
 * The eviction order of a cache: the least recently used item of the organisation that holds most. So no organisation can
 * evict the items of others by using the cache more than they do. It owns that order and the sizes.
 */
export class FairLru<Item extends { readonly organisation: string }> {
  readonly #owners = new Map<string, Owner<Item>>()
  #size = 0
  #count = 0

  get size(): number {
    return this.#size
  }

  get count(): number {
    return this.#count
  }

  has(item: Item): boolean {
    return this.#owners.get(item.organisation)?.items.has(item) === true
  }

  /** Adds an item as the most recently used. */
  add(item: Item, size: number): void {
    this.delete(item)
    const owner = this.#owners.get(item.organisation) ?? { size: 0, items: new Map<Item, number>() }
    this.#owners.set(item.organisation, owner)
    owner.items.set(item, size)
    owner.size += size
    this.#size += size
    this.#count++
  }

  /** Marks an item as the most recently used. */
  touch(item: Item): void {
    const size = this.#owners.get(item.organisation)?.items.get(item)
    if (size !== undefined) this.add(item, size)
  }

  delete(item: Item): void {
    const owner = this.#owners.get(item.organisation)
    const size = owner?.items.get(item)
    if (owner === undefined || size === undefined) return
    owner.items.delete(item)
    owner.size -= size
    this.#size -= size
    this.#count--
    if (owner.items.size === 0) this.#owners.delete(item.organisation)
  }

  /** All items. */
  *items(): Generator<Item> {
    for (const { items } of this.#owners.values()) yield* items.keys()
  }

  /** The item to remove next; null if all are spared. */
  next(isSpared: (item: Item) => boolean = () => false): Item | null {
    for (const { items } of [...this.#owners.values()].sort((a, b) => b.size - a.size)) {
      for (const item of items.keys()) if (!isSpared(item)) return item
    }
    return null
  }
}
