import type { GgufMetadata } from '../../families/gguf.ts'
import { CardError } from '../card-error.ts'
import { machineMemory } from '../machine-memory.ts'
import { type CardFolder, findWeights } from '../read/weight-files.ts'
import { runsOnServers } from '../server-engines.ts'
import type { WrittenCard } from '../written-card.ts'
import { kvCostOf } from './kv-cost.ts'

/** More is rarely used, and takes memory all the time. */
const USUAL_CONTEXT = 32_768
const LEAST_CONTEXT = 2048
/** A step: llama.cpp rounds the cells of a context up to a multiple of this. */
const CELLS = 256
/** The share of the memory that one model may take: the rest is for pictures, other models and the system. */
const MEMORY_SHARE = 0.6
/** The process and its libraries, without the caches. */
const PROCESS_BYTES = 256 * 2 ** 20
/** Leaves the prefix cache room for half the number of cells. */
const CACHED_CELLS = 1.5
/** Rows of the largest batch, each with a mask of 32 bits for every cell. */
const MASK_BYTES = 512 * 4
const USUAL_SEQUENCES = 64
const SEQUENCES = { maxSequences: USUAL_SEQUENCES, sequencesOrigin: 'default' }
/** The share of the cache's memory that states of sequences may take. */
const STATE_SHARE = 1 / 4

export interface DerivedContext {
  readonly contextTokens: number
  readonly origin: string
  readonly maxSequences: number
  readonly sequencesOrigin: string
}

/**
 * How many tokens and sequences a model's cache gets, by the model's training and the machine's memory.
 * @throws CardError when not even the weights have room.
 */
export async function deriveContext(
  card: WrittenCard,
  language: GgufMetadata,
  place: CardFolder,
  memoryBytes = machineMemory(),
): Promise<DerivedContext> {
  if (card.engine.type === 'openai')
    throw new CardError(place.file, 'engine.contextTokens', 'is needed: the servers do not say how much they take')
  // Other machines know what they have room for.
  if (runsOnServers(card.engine)) return { ...leastContext(card, language, []), ...SEQUENCES }
  const { model, projector } = card.engine
  const weights =
    (await findWeights(place, 'engine.model', model)).bytes +
    (projector === undefined ? 0 : (await findWeights(place, 'engine.projector', projector)).bytes)
  if (weights > memoryBytes) {
    throw new CardError(
      place.file,
      'engine.model',
      `its files take ${inGib(weights)} GiB and this machine has ${inGib(memoryBytes)}: take a model with fewer bits or ` +
        'fewer parameters, or set engine.contextTokens to try it all the same',
    )
  }
  const { perCell, perSequence } = kvCostOf(language, card.engine.kvType, place)
  const room = Math.max(0, memoryBytes * MEMORY_SHARE - weights - PROCESS_BYTES)
  const maxSequences =
    perSequence === 0
      ? USUAL_SEQUENCES
      : Math.min(Math.max(Math.floor((room * STATE_SHARE) / perSequence), 1), USUAL_SEQUENCES)
  const left = room - maxSequences * perSequence
  const cells = Math.floor(left / (perCell * CACHED_CELLS + MASK_BYTES) / CELLS) * CELLS
  const context = leastContext(card, language, [[Math.max(cells, LEAST_CONTEXT), 'the memory of this machine']])
  if (maxSequences === USUAL_SEQUENCES) return { ...context, ...SEQUENCES }
  return { ...context, maxSequences, sequencesOrigin: "states of the model's layers, by memory" }
}

/** The lowest of the given limits, the training's limit, and the card's `maxContextTokens` or a default. */
function leastContext(card: WrittenCard, language: GgufMetadata, others: readonly (readonly [number, string])[]) {
  const asked = Math.max(...(card.serves ?? []).map(({ maxContextTokens = 0 }) => maxContextTokens), 0)
  const architecture = language.get('general.architecture')
  const trained = language.get(`${architecture}.context_length`)
  const limits: (readonly [number, string])[] = [
    asked > 0 ? [asked, 'serves[].maxContextTokens'] : [USUAL_CONTEXT, 'default'],
    ...others,
    ...(typeof trained === 'number' ? [[trained, `${architecture}.context_length`] as const] : []),
  ]
  const [contextTokens, origin] = limits.reduce((least, limit) => (limit[0] < least[0] ? limit : least))
  return { contextTokens, origin }
}

function inGib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(1)
}
