import type { Catalogue, CatalogueEntry } from './catalogue-schema.ts'
import { estimateSpeed, type MachineSpeed, type SpeedEstimate } from './speed-estimate.ts'

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

/** The catalogue's models as they would run on a machine, best first: what fits, then what fits tightly, then the rest. */
export function rankForMachine({ models }: Catalogue, machine: Machine): EntryFit[] {
  return models.map((entry) => fitOf(entry, machine))
}

function fitOf(entry: CatalogueEntry, { speed, available }: Machine): EntryFit {
  const { name, model } = entry.quantisations[0]!
  const bytes = model.bytes + (entry.projector?.bytes ?? 0)
  const { activeParameters, parameters } = entry.shape
  const cost = { bytes: (model.bytes * activeParameters) / parameters, parameters: activeParameters }
  return {
    entry,
    quantisation: name,
    bytes,
    memory: bytes,
    fits: bytes <= available ? 'yes' : 'no',
    speed: speed === null ? null : estimateSpeed(cost, speed),
  }
}
