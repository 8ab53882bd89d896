import { expect, test } from 'vitest'
import type { MediaTokens } from '../tokens/prompt-tokens.ts'
import { checkMedia } from './admission.ts'

/** An image of `length` tokens. */
const image = (length: number, causal: boolean) =>
  ({ type: 'media', encodable: { length, causal } }) as Partial<MediaTokens> as MediaTokens

test('an image whose tokens attend to each other must fit one call, or its input is rejected by name', () => {
  const text = { type: 'text', tokens: new Int32Array(1000) } as const
  checkMedia([text, image(512, false), image(1000, true)], 512, 'messages')
  expect(() => checkMedia([text, image(513, false)], 512, 'prompts[1]')).toThrow(
    expect.objectContaining({
      failure: {
        kind: 'invalid',
        message: 'An image of 513 tokens is larger than the 512 that this model can read at once.',
        param: 'prompts[1]',
      },
    }),
  )
})
