import { expect, test } from 'vitest'
import { CARD, picture } from '../../../../test/support/local-engine.ts'
import { loadLocalCard } from '../../../models/card.ts'
import type { PromptPart } from '../../engine.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { LoadedModel } from './loaded-model.ts'

test('what is larger than the encoder cache is not kept, and removes nothing', async () => {
  const card = await loadLocalCard(CARD)
  const loaded = new LoadedModel(loadNativeLibraries(locateNativeLibraries()), {
    model: `${card.directory}/${card.engine.model}`,
    projector: `${card.directory}/${card.engine.projector}`,
    cells: 256,
    maxSequences: 1,
    printedTokens: [],
    repetition: null,
    image: null,
    threads: 1,
    maxWaiting: 1,
    prefixCacheBytes: 0,
    // A token takes 1 KiB.
    encoderCacheBytes: 50 * 1024,
    seed: 1,
  })
  try {
    const read = (part: PromptPart) =>
      loaded.reader.read([part], 'test', 'messages').chunks.find(({ type }) => type === 'media')!
    const [sound, small, large] = [
      read({ type: 'audio', samples: new Float32Array(16_000) }),
      read(picture(128, 128)),
      read(picture(256, 256)),
    ].map((chunk) => {
      if (chunk.type === 'text') throw new Error('Expected media.')
      return chunk
    })
    const tokens = [sound, small, large].map((media) => media!.encode().byteLength / 1024)
    expect(tokens).toEqual([26, 16, 64])
    expect([sound, small, large].map((media) => media!.knownEmbeddings() !== undefined)).toEqual([true, true, false])
  } finally {
    loaded.close()
  }
})
