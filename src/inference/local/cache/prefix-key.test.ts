import { expect, test } from 'vitest'
import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import { PrefixKey } from './prefix-key.ts'

const text = (...tokens: number[]): PromptChunk => ({ type: 'text', tokens: Int32Array.from(tokens) })

/** A picture of 9 cells that takes 3 positions. */
function picture(key: string): PromptChunk {
  const encodable = { length: 9, positions: 3 } as Extract<PromptChunk, { type: 'media' }>['encodable']
  return { type: 'media', key, encodable, knownEmbeddings: () => undefined, encode: () => new Float32Array() }
}

const path = PrefixKey.of([text(1, 2), picture('a'), text(3, 4, 5)])

test('what two paths have in common ends at the first other token, wherever texts are divided', () => {
  expect(path.commonPart(PrefixKey.of([text(1), text(2), picture('a'), text(3), text(4, 6)]))).toEqual({
    cells: 13,
    position: 7,
  })
  expect(path.commonPart(path)).toEqual({ cells: 14, position: 8 })
  expect(path.commonPart(PrefixKey.of([text(1, 7), picture('a')]))).toEqual({ cells: 1, position: 1 })
})

test('another picture of the same size is not common, nor is a part of one', () => {
  expect(path.commonPart(PrefixKey.of([text(1, 2), picture('b'), text(3)]))).toEqual({ cells: 2, position: 2 })
  expect(path.commonPart(PrefixKey.of([text(1, 2)]))).toEqual({ cells: 2, position: 2 })
  const two = PrefixKey.of([picture('a'), picture('b')])
  expect(two.commonPart(PrefixKey.of([picture('a'), picture('c')]))).toEqual({ cells: 9, position: 3 })
})

test('is cut between pictures, never within one', () => {
  expect(path.slice(5)).toBeNull()
  expect(path.slice(11)!.commonPart(path)).toEqual({ cells: 11, position: 5 })
  expect(path.concat([8, 9]).slice(15)!.length).toBe(15)
})
