import type { EngineSettings } from '../../src/inference/local/protocol.ts'
import { loadLocalCard } from '../../src/models/card.ts'
import { CARD } from './local-engine.ts'

/** The shipped model, small: for tests that load it into their own process. @param fields that differ. */
export async function shippedSettings({
  encoder = false,
  ...fields
}: Partial<EngineSettings> & { readonly encoder?: boolean } = {}): Promise<EngineSettings> {
  const { directory, engine, audio } = await loadLocalCard(CARD)
  return {
    model: `${directory}/${engine.model}`,
    projector: encoder ? `${directory}/${engine.projector}` : null,
    cells: 2048,
    maxSequences: 4,
    printedTokens: [],
    repetition: null,
    speculation: false,
    image: null,
    ...(encoder && audio !== null ? { audio } : {}),
    threads: 1,
    maxWaiting: 10,
    prefixCacheBytes: 0,
    encoderCacheBytes: 0,
    seed: 1,
    ...fields,
  }
}
