import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { EngineEvent } from '../../src/inference/contract/generation.ts'
import type { PromptPart } from '../../src/inference/contract/parts.ts'
import type { NativeLibraries } from '../../src/inference/local/native/libraries.ts'
import type { FromEngine } from '../../src/inference/local/protocol.ts'
import { BatchSplitter } from '../../src/inference/local/scheduler/batch/batch-splitter.ts'
import { LoadedModel } from '../../src/inference/local/scheduler/loaded-model.ts'
import { Scheduler } from '../../src/inference/local/scheduler/scheduler.ts'
import type { LocalModelCard } from '../../src/models/card.ts'
import { branch } from '../../test/support/tiny-models/reuse.ts'
import { LIKELIEST, type PeerAdapter, type Reply, type Step } from './peer-replies.ts'

const ADAPTER = 'adapter'

/** The engine's scheduler in this process, where the logits of every step can be read. */
export class EngineReplies {
  readonly #loaded: LoadedModel

  /** @param adapter a LoRA file that `ask` may use. */
  constructor(libraries: NativeLibraries, { directory, engine, image, audio }: LocalModelCard, adapter: PeerAdapter) {
    this.#loaded = new LoadedModel(libraries, {
      model: join(directory, engine.model),
      projector: engine.projector === undefined ? null : join(directory, engine.projector),
      cells: engine.contextTokens,
      maxSequences: engine.maxSequences,
      printedTokens: [],
      adapters: [{ ...adapter, name: ADAPTER }],
      repetition: null,
      speculation: false,
      image: image ?? null,
      ...(audio && { audio }),
      threads: Math.min(2, availableParallelism()),
      maxWaiting: 1,
      prefixCacheBytes: 0,
      encoderCacheBytes: 0,
      seed: 0,
    })
  }

  /** @param adapted whether the adapter computes too. */
  ask(parts: readonly PromptPart[], tokens: number, adapted = false): Reply {
    const { context } = this.#loaded
    const steps: Step[] = []
    // The rows of the batch that have logits.
    let rows: number[] = []
    const add = context.batch.add.bind(context.batch)
    const wait = context.wait.bind(context)
    context.batch.add = (token, position, sequence, output) => {
      const row = add(token, position, sequence, output)
      if (output) rows.push(row)
      return row
    }
    context.wait = () => {
      wait()
      for (const row of rows) steps.push(likeliest(context.logits(row)))
      rows = []
    }
    let text = ''
    const receive = (events: readonly EngineEvent[]) => {
      for (const event of events) if (event.type === 'text') text += event.text
    }
    const send = (message: FromEngine) => {
      if (message.type === 'error') throw new Error(message.error.message)
      if (message.type === 'events') for (const { events } of message.requests) receive(events)
    }
    const splitter = new BatchSplitter([{ rows: 1, ms: 1 }], 1, context.batch.capacity)
    const scheduler = new Scheduler(
      this.#loaded,
      splitter,
      { maxWaiting: 1, prefixCacheBytes: 0, speculation: false, seed: 0 },
      send,
    )
    try {
      scheduler.submit(0, {
        organisation: 'parity',
        prefix: parts,
        branches: [branch({ maxTokens: tokens })],
        adapter: adapted ? ADAPTER : undefined,
      })
      while (scheduler.step()) {}
    } finally {
      context.batch.add = add
      context.wait = wait
    }
    return { text, steps }
  }

  close(): Promise<void> {
    return this.#loaded.close()
  }
}

/** Log probabilities of the likeliest tokens. */
function likeliest(logits: Float32Array): Step {
  const highest = logits.reduce((a, b) => Math.max(a, b))
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - highest), 0)
  const tokens = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]!).slice(0, LIKELIEST)
  return new Map(tokens.map((token) => [token, logits[token]! - highest - Math.log(sum)]))
}
