import { sumOf } from '../../lib/sum.ts'

/** A number of values in an interval, and their mean. */
export interface Block {
  readonly count: number
  readonly from: number
  readonly to: number
  readonly value: number
}

/**
 * Isotonic regression by pooling adjacent violators: the rising steps with the least squared error.
 * @param blocks in any order, such as single points; they overlap at most at their ends.
 * @returns rising blocks; blocks that begin at the same position are in one.
 */
export function fitIsotonic(blocks: readonly Block[]): readonly Block[] {
  const starts = [...Map.groupBy(blocks, ({ from }) => from).values()].map(pooled)
  const rising: Block[] = []
  for (let block of starts.sort((one, other) => one.from - other.from)) {
    while (rising.length > 0 && rising.at(-1)!.value >= block.value) block = pooled([rising.pop()!, block])
    rising.push(block)
  }
  return rising
}

function pooled(blocks: readonly Block[]): Block {
  const count = sumOf(blocks, (block) => block.count)
  return {
    count,
    from: Math.min(...blocks.map(({ from }) => from)),
    to: Math.max(...blocks.map(({ to }) => to)),
    value: sumOf(blocks, (block) => block.count * block.value) / count,
  }
}
