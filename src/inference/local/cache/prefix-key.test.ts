import { expect, test } from 'vitest'
import { fakeMedia } from '../../../../test/support/fake-media.ts'
import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import { PrefixKey } from './prefix-key.ts'

const text = (...tokens: number[]): PromptChunk => ({ type: 'text', tokens: Int32Array.from(tokens) })

/** An image of 9 cells that takes 3 positions. */
const image = (name: string): PromptChunk => fakeMedia(name, { length: 9, positions: 3 })

const key = PrefixKey.of([text(1, 2), image('a'), text(3, 4, 5)])

test('the common prefix ends at the first token that differs, however the text is divided', () => {
  expect(key.commonPrefix(PrefixKey.of([text(1), text(2), image('a'), text(3), text(4, 6)]))).toEqual({
    cells: 13,
    position: 7,
  })
  expect(key.commonPrefix(key)).toEqual({ cells: 14, position: 8 })
  expect(key.commonPrefix(PrefixKey.of([text(1, 7), image('a')]))).toEqual({ cells: 1, position: 1 })
})

test('the common prefix excludes a different image of the same size, and parts of an image', () => {
  expect(key.commonPrefix(PrefixKey.of([text(1, 2), image('b'), text(3)]))).toEqual({ cells: 2, position: 2 })
  expect(key.commonPrefix(PrefixKey.of([text(1, 2)]))).toEqual({ cells: 2, position: 2 })
  const two = PrefixKey.of([image('a'), image('b')])
  expect(two.commonPrefix(PrefixKey.of([image('a'), image('c')]))).toEqual({ cells: 9, position: 3 })
})

test('is cut between images, never within one', () => {
  expect(key.slice(5)).toBeNull()
  expect(key.slice(11)!.commonPrefix(key)).toEqual({ cells: 11, position: 5 })
  expect(key.concat([8, 9]).slice(15)!.length).toBe(15)
})
