import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fakeMedia } from '../../../../../test/support/fake-media.ts'
import { KvCache } from '../../cache/kv-cache.ts'
import type { Batch } from '../../native/batch.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import { PrefillCursor } from './prefill-cursor.ts'

const noMemory = {
  cells: 1000,
  forkSequence() {},
  removeSequence() {},
  sequenceBytes: () => 0,
  saveSequence: () => new Uint8Array(),
  firstPosition: () => 0,
  restoreSequence() {},
}
const text = (...tokens: number[]): PromptChunk => ({ type: 'text', tokens: Int32Array.from(tokens) })
const image = fakeMedia('', { length: 9, positions: 3 })

/** The rows that a step would compute. */
function recordingBatch(): { readonly batch: Batch; readonly rows: number[][] } {
  const rows: number[][] = []
  const add = (...row: [number, number, number, boolean]) => rows.push(row.slice(0, 3) as number[])
  return { batch: { add } as Partial<Batch> as Batch, rows }
}

test('fills in every token once and in order, however the prompt and its steps are cut', () => {
  const tokens = fc.array(fc.nat(1000), { maxLength: 8 })
  fc.assert(
    fc.property(
      fc.array(tokens, { maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 5 })),
      fc.nat(20),
      (texts, steps, skip) => {
        const kv = new KvCache(noMemory, 1)
        const kvSequence = kv.fork(null)
        const all = texts.flat()
        const held = Math.min(skip, all.length)
        kv.grow(kvSequence, held, held)
        const cursor = new PrefillCursor(
          kvSequence,
          texts.map((part) => text(...part)),
          held,
        )
        const { batch, rows } = recordingBatch()
        for (let step = 1; !cursor.isDone; step++) {
          const limit = steps[step % Math.max(1, steps.length)] ?? 3
          const count = cursor.textRows(limit)
          expect(count).toBe(Math.min(limit, cursor.remaining))
          cursor.addText(batch, kv, count, step)
          expect(cursor.lastTextStep).toBe(step)
        }
        expect(rows).toEqual(all.map((token, position) => [token, position, kvSequence.id]).slice(held))
        expect([kvSequence.cells, kvSequence.position]).toEqual([all.length, all.length])
      },
    ),
  )
})

test('text ends where an image begins, and continues after it', () => {
  const kv = new KvCache(noMemory, 1)
  const cursor = new PrefillCursor(kv.fork(null), [text(1, 2), text(3), image, text(4)], 0)
  expect([cursor.textRows(2), cursor.textRows(100), cursor.media]).toEqual([2, 3, null])
  cursor.addText(recordingBatch().batch, kv, 3, 1)
  expect([cursor.textRows(100), cursor.media, cursor.remaining]).toEqual([0, image, 10])
  expect([cursor.needsEncoding, cursor.mediaRows(4, 512), cursor.mediaRows(100, 512)]).toEqual([true, 4, 9])
  const behind = new PrefillCursor(cursor.kvSequence, [text(1), image, text(4, 5)], 10)
  expect([behind.textRows(100), behind.media, behind.remaining]).toEqual([2, null, 2])
})
