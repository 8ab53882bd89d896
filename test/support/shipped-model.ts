import { inject } from 'vitest'
import type { Engine } from '../../src/inference/contract/engine.ts'
import { type EngineOptions, startEngine } from '../../src/inference/engines/engines.ts'
import { loadCard } from '../../src/models/card.ts'
import { CARD } from './local-engine.ts'
import { startTestServer, type TestServer, type TestServerOptions } from './server.ts'

/**
 * The shipped model on the engine that the vitest project tests: the local one, or a server of vLLM. What is started here
 * runs in both.
 */

declare module 'vitest' {
  interface ProvidedContext {
    /** The shipped model's card for vLLM. Only the project that tests vLLM provides it. */
    vllmCard: string
  }
}

/** The path of its card. */
export function shippedCard(): string {
  return inject('vllmCard') ?? CARD
}

export async function startShippedEngine(options?: EngineOptions): Promise<Engine> {
  return startEngine(await loadCard(shippedCard()), options)
}

/** @param seed makes sampling reproducible on the local engine. */
export async function startShippedServer({
  seed,
  environment,
}: Pick<TestServerOptions, 'environment'> & { readonly seed?: number } = {}): Promise<TestServer> {
  return startTestServer({
    startEngine: (card) => startEngine(card, seed === undefined ? {} : { seed }),
    environment: { LOOKOUT_MODEL_CARD: shippedCard(), ...environment },
  })
}
