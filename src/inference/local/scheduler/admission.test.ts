import { expect, test } from 'vitest'
import type { MediaChunk } from '../tokens/prompt-tokens.ts'
import { checkMedia } from './admission.ts'

/** A picture of so many tokens. */
const picture = (length: number, causal: boolean) =>
  ({ type: 'media', encodable: { length, causal } }) as Partial<MediaChunk> as MediaChunk

test('a picture whose tokens see each other must fit one call, and is refused by name', () => {
  const text = { type: 'text', tokens: new Int32Array(1000) } as const
  checkMedia([text, picture(512, false), picture(1000, true)], 512, 'messages')
  expect(() => checkMedia([text, picture(513, false)], 512, 'prompts[1]')).toThrow(
    expect.objectContaining({
      failure: {
        kind: 'invalid',
        message: 'An image of 513 tokens is larger than the 512 that this model can read at once.',
        param: 'prompts[1]',
      },
    }),
  )
})
