import { flushCompileCache } from 'node:module'
import { keepServing } from '../../src/commands/faults.ts'
import { readConfig } from '../../src/config/config.ts'
import type { Engine, ModelInfo } from '../../src/inference/contract/engine.ts'
import { letHeapGrow } from '../../src/lib/guarded/memory.ts'
import { readGgufMetadata } from '../../src/models/read/gguf.ts'
import { Service } from '../../src/service.ts'

const LEASE_MS = process.env.STAND_IN_LEASE_MS

/**
 * Starts the whole service with an engine that stands in for the model's own. It has the shipped model's chat template,
 * because rendering it is part of the cost.
 */
export async function serveStandIn(engineOf: (info: ModelInfo) => Engine): Promise<Service> {
  letHeapGrow()
  const service = await Service.start(readConfig(process.env), {
    async startEngine(card) {
      const metadata = await readGgufMetadata(`${card.directory}/${card.engine.model}`)
      return engineOf({
        contextTokens: 32_768,
        longestTokenBytes: 16,
        chatTemplate: String(metadata.get('tokenizer.chat_template')),
        bosToken: '',
        eosToken: '<|im_end|>',
        modalities: { image: true, audio: true },
      })
    },
    // Tests do not wait as long for what a server that was killed has leased.
    ...(LEASE_MS === undefined
      ? {}
      : {
          batches: { leaseMs: Number(LEASE_MS), pollMs: 100 },
          watches: { leaseMs: Number(LEASE_MS), webhooks: { timeoutMs: Number(LEASE_MS) } },
        }),
  })
  keepServing(service)
  // Tests kill it, and start it again.
  flushCompileCache()
  return service
}
