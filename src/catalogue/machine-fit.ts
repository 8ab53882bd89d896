import { chooseQuantisation, ESTIMATED_CONTEXT, fitOf, PROCESS_BYTES } from '../models/memory-fit.ts'
import type { Catalogue, CatalogueEntry } from './catalogue-schema.ts'
import { estimateSpeed, isUsable, type MachineSpeed, type SpeedEstimate } from './speed-estimate.ts'

export interface Machine {
  /** Bytes of memory that models may use. */
  readonly available: number
  /** Null where it has not been measured. */
  readonly speed: MachineSpeed | null
}

/** How an entry of the catalogue would run on a machine. */
export interface EntryFit {
  readonly entry: CatalogueEntry
  /** The quantisation that this machine would get. */
  readonly quantisation: string
  /** Bytes to fetch, with the encoder. */
  readonly bytes: number
  /** Bytes of memory that it takes, about. */
  readonly memory: number
  readonly fits: 'yes' | 'tight' | 'no'
  readonly speed: SpeedEstimate | null
}

/** Logits and activations of the largest batch, and an encoder's activations for the largest image: those of Qwen3-VL. */
const COMPUTE_BYTES = 350 * 2 ** 20
const ENCODER_BYTES = 900 * 2 ** 20

const FITS = ['yes', 'tight', 'no'] as const

/**
 * The catalogue's models as they would run on a machine, best first:
 *
 * 1. what fits, then what fits tightly, then the rest;
 * 2. models for general use before those of one task, which disappoint whoever asks them anything else;
 * 3. those that answer at a usable speed (`isUsable`) before those that do not. A speed that is not known counts as
 *    usable: it is that of a GPU, whose memory and speed grow together;
 * 4. of the usable ones the most capable, of the slow ones the fastest. Of what does not fit, what needs the least memory.
 */
export function rankForMachine({ models }: Catalogue, machine: Machine): EntryFit[] {
  return models.map((entry) => entryFit(entry, machine)).sort(compare)
}

function compare(a: EntryFit, b: EntryFit): number {
  const byFit = FITS.indexOf(a.fits) - FITS.indexOf(b.fits)
  if (byFit !== 0) return byFit
  if (a.fits === 'no') return a.memory - b.memory
  return (
    Number(isGeneral(b)) - Number(isGeneral(a)) ||
    Number(isUsable(b.speed)) - Number(isUsable(a.speed)) ||
    (isUsable(a.speed) ? capability(b) - capability(a) : b.speed!.tokensPerSecond - a.speed!.tokensPerSecond)
  )
}

function isGeneral({ entry }: EntryFit): boolean {
  return entry.uses.includes('general')
}

/** A mixture of experts answers about as well as a dense model of so many parameters. */
function capability({ entry: { shape } }: EntryFit): number {
  return Math.sqrt(shape.parameters * shape.activeParameters)
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
  // Finer than usual is not worth a speed that is not usable.
  const isTooFine = usual !== undefined && usual.bytes < largest.bytes && !isUsable(largest.speed)
  const chosen = isTooFine ? usual : largest
  return { entry, ...chosen, fits: fitOf(chosen.memory, available) }
}

/** What a loaded model takes beside its files, in bytes: as the hub's estimate, from less that is known. */
function memoryBeside({ shape, contextTokens, projector }: CatalogueEntry): number {
  return (
    Math.min(contextTokens ?? ESTIMATED_CONTEXT, ESTIMATED_CONTEXT) * shape.kvBytesPerToken +
    COMPUTE_BYTES +
    (projector === null ? 0 : ENCODER_BYTES) +
    PROCESS_BYTES
  )
}
