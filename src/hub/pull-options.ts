import type { MachineSpeed } from '../catalogue/speed-estimate.ts'
import type { Hub } from './download/hub-client.ts'
import type { HubSettings } from './hub-settings.ts'
import type { LocalFile } from './local-file.ts'
import type { Report } from './pull-event.ts'
import type { Tuning } from './tuning.ts'

/** What the user asked for. */
export interface PullRequest {
  /** A short name of the catalogue, a repository of the hub or the address of a file. */
  readonly address: string
  /** Replaces the text after the colon of the address; null for none. */
  readonly quant: string | null
  /** A file of the repository, an address or a path; `auto` for the one that the rules choose, null for none. */
  readonly projector: string | 'auto' | null
  /** The id to serve the model under; null for the address. */
  readonly id: string | null
}

export interface PullOptions {
  readonly settings: HubSettings
  /** Folder of the cards. */
  readonly store: string
  /** Bytes of memory that models may use. */
  readonly available: number
  /** Measures this machine, for a model of the catalogue, whose quantisation depends on its speed. */
  readonly machineSpeed: () => Promise<MachineSpeed | null>
  readonly tuning: Tuning
  readonly signal: AbortSignal
  readonly report: Report
}

/** The options, with what is derived from them. */
export interface FetchingOptions extends PullOptions {
  readonly hub: Hub
  /**
   * Gets the image encoder at an address or a path; null for any other text.
   * @param folder for a file that is fetched.
   */
  outsideProjector(given: string, folder: string): Promise<LocalFile | null>
}
