import { chooseQuantisation, ESTIMATED_CONTEXT, fitOf, PROCESS_BYTES } from '../models/memory-fit.ts'
import type { Catalogue, CatalogueEntry } from './catalogue-schema.ts'
import { estimateSpeed, isUsable, type MachineSpeed, type SpeedEstimate } from './speed-estimate.ts'

export interface Machine {
  /** Bytes of memory that models may use. */
  readonly available: number
  /** Null if not measured. */
  readonly speed: MachineSpeed | null
}

/** How an entry of the catalogue would run on a machine. */
export interface EntryFit {
  readonly entry: CatalogueEntry
  /** The quantisation that this machine would get. */
  readonly quantisation: string
  /** Bytes to download, including the encoder. */
  readonly bytes: number
  /** Approximate bytes of memory that it takes. */
  readonly memory: number
  readonly fits: 'yes' | 'tight' | 'no'
  readonly speed: SpeedEstimate | null
}

/** Logits and activations of the largest batch, and an encoder's activations for the largest image, for Qwen3-VL. */
const COMPUTE_BYTES = 350 * 2 ** 20
const ENCODER_BYTES = 900 * 2 ** 20
/** If the files take more of the available memory than this, a server only has room for a short context. */
const FILES_SHARE = 0.75

/**
 * The catalogue's models as they would run on a machine, best first:
 *
 * 1. what fits, if only tightly; then those of them whose files leave little room for context; then what does not fit;
 * 2. models whose first use is general before those with another first use, and those before models of one task, which
 *    disappoint users who ask them anything else;
 * 3. those that answer at a usable speed (`isUsable`) before those that do not. A speed that is not known counts as
 *    usable: it is that of a GPU, whose memory and speed grow together;
 * 4. of the usable ones those of the largest memory class, and of one class in the order of the catalogue; of the slow ones
 *    the fastest. Of what does not fit, what needs the least memory.
 */
export function rankForMachine({ models }: Catalogue, machine: Machine): EntryFit[] {
  return models.map((entry) => entryFit(entry, machine)).sort((a, b) => compare(a, b, machine.available))
}

function compare(a: EntryFit, b: EntryFit, available: number): number {
  if (a.fits === 'no' && b.fits === 'no') return a.memory - b.memory
  return (
    placeOf(a, available) - placeOf(b, available) ||
    generalPlace(a) - generalPlace(b) ||
    Number(isUsable(b.speed)) - Number(isUsable(a.speed)) ||
    (isUsable(a.speed)
      ? b.entry.memoryClass - a.entry.memoryClass
      : b.speed!.tokensPerSecond - a.speed!.tokensPerSecond)
  )
}

function placeOf({ fits, bytes }: EntryFit, available: number): number {
  return fits === 'no' ? 2 : bytes > available * FILES_SHARE ? 1 : 0
}

function generalPlace({ entry: { uses } }: EntryFit): number {
  const place = uses.indexOf('general')
  return place < 0 ? Number.MAX_SAFE_INTEGER : place
}

function entryFit(entry: CatalogueEntry, { available, speed }: Machine): EntryFit {
  const { parameters, activeParameters } = entry.shape
  const sized = entry.quantisations.map(({ name, model }) => {
    const bytes = model.bytes + (entry.projector?.bytes ?? 0)
    const cost = { bytes: (model.bytes * activeParameters) / parameters, parameters: activeParameters }
    return {
      quantisation: name,
      bytes,
      memory: bytes + memoryBeside(entry),
      speed: speed === null ? null : estimateSpeed(cost, speed),
    }
  })
  const largest = chooseQuantisation(sized, available)
  const usual = sized.find(({ quantisation }) => quantisation === entry.defaultQuantisation)
  // A finer quantisation than the default is not worth an unusable speed. The speed of a busy machine says nothing
  // about the next months.
  const isSlow = speed?.isBusy !== true && !isUsable(largest.speed)
  const isTooFine = usual !== undefined && usual.bytes < largest.bytes && isSlow
  const chosen = isTooFine ? usual : largest
  return { entry, ...chosen, fits: fitOf(chosen.memory, available) }
}

/** Memory of a loaded model besides its files, in bytes: like the hub's estimate, from fewer facts. */
function memoryBeside({ shape, contextTokens, projector }: CatalogueEntry): number {
  return (
    Math.min(contextTokens ?? ESTIMATED_CONTEXT, ESTIMATED_CONTEXT) * shape.kvBytesPerToken +
    COMPUTE_BYTES +
    (projector === null ? 0 : ENCODER_BYTES) +
    PROCESS_BYTES
  )
}
