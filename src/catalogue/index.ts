export { findEntry, readCatalogue } from './catalogue.ts'
export type { Catalogue, CatalogueEntry } from './catalogue-schema.ts'
export { type EntryFit, type Machine, rankForMachine } from './machine-fit.ts'
export { estimateSpeed, type MachineSpeed, type SpeedEstimate } from './speed-estimate.ts'
