import { expect, test } from 'vitest'
import { KvCache } from '../../cache/kv-cache.ts'
import type { Batch } from '../../native/batch.ts'
import type { SequenceGroup } from '../sequences/sequence-group.ts'
import { PrefillCursor } from './prefill-cursor.ts'
import { PrefillPace } from './prefill-pace.ts'
import { PrefillTurns } from './prefill-turns.ts'
import type { Prefill } from './step.ts'

const LONG = 4000
const ROWS = 100
const batch = { add: () => 0 } as Partial<Batch> as Batch
const kv = new KvCache(
  {
    cells: 1e6,
    forkSequence() {},
    removeSequence() {},
    sequenceBytes: () => 0,
    saveSequence: () => new Uint8Array(),
    firstPosition: () => 0,
    restoreSequence() {},
  },
  100,
)

function prompt(organisation: string, tokens: number): Prefill {
  const cursor = new PrefillCursor(kv.fork(null), [{ type: 'text', tokens: new Int32Array(tokens) }], 0)
  return { cursor, group: { organisation } as Partial<SequenceGroup> as SequenceGroup, sequence: null }
}

/** Gives each of `steps` steps to the prompt that comes first. @returns the index of each. */
function play(prompts: readonly Prefill[], steps: number): number[] {
  const turns = new PrefillTurns(new PrefillPace(0.2, 512))
  return Array.from({ length: steps }, (_, index) => {
    const open = prompts.filter(({ cursor }) => !cursor.isDone)
    const { cursor } = turns.next(open)[0]!
    cursor.addText(batch, kv, Math.min(ROWS, cursor.remaining), index + 1)
    return prompts.findIndex((other) => other.cursor === cursor)
  })
}

test('short prompts get every other step, the shortest first, and a long one the others', () => {
  const prompts = [prompt('a', LONG), prompt('b', 300), prompt('c', 100)]
  expect(play(prompts, 10)).toEqual([2, 0, 1, 0, 1, 0, 1, 0, 0, 0])
})

test('long prompts take turns by organisation, for any number of prompts of one', () => {
  const prompts = [prompt('a', LONG), prompt('a', LONG), prompt('a', LONG), prompt('b', LONG)]
  const order = play(prompts, 12)
  expect(order.filter((index) => index === 3)).toHaveLength(6)
  for (const index of [0, 1, 2]) expect(order.filter((other) => other === index)).toHaveLength(2)
})

test('the oldest prompt makes progress beside any number of shorter ones', () => {
  const prompts = [prompt('a', 500), ...Array.from({ length: 20 }, () => prompt('b', 100))]
  expect(play(prompts, 10).filter((index) => index === 0)).toHaveLength(5)
})
