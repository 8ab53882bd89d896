import type { MediaTokens } from '../../src/inference/local/tokens/prompt-tokens.ts'

/** Media in a prompt that nothing encodes. @param size cells and positions that they take. */
export function fakeMedia(key: string, size: { readonly length: number; readonly positions: number }): MediaTokens {
  return {
    type: 'media',
    key,
    encodable: { causal: true, ...size } as MediaTokens['encodable'],
    knownEmbeddings: () => undefined,
    encode: () => new Float32Array(),
    encodeAside: async () => {},
  }
}
