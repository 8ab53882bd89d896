/** One line of the table of choices. */
export interface Choice {
  /** The text after the colon of a model's address. */
  readonly quant: string
  readonly files: readonly string[]
  /** Size of the files, the projector's included. */
  readonly bytes: number
  /** Memory that the loaded model is estimated to take. */
  readonly memory: number
  /** `tight`: it fits, but takes more memory than a model that is chosen automatically may. */
  readonly fits: 'yes' | 'tight' | 'no'
  /** Whether nothing needs to be downloaded. */
  readonly cached: boolean
  readonly chosen: boolean
}

/** Events while a model is fetched. With `--json`, each is a line. */
export type PullEvent =
  | {
      readonly type: 'choice'
      readonly model: string
      readonly commit: string
      /** Bytes of memory that models may use. */
      readonly available: number
      /** Tokens of context that the memory is estimated for. */
      readonly context: number
      readonly choices: readonly Choice[]
      readonly projector: { readonly file: string; readonly reason: string } | null
    }
  /** Something worth a line: a warning, a pause, a file that was found. */
  | { readonly type: 'note'; readonly message: string }
  /** The file is here already. */
  | { readonly type: 'found'; readonly file: string; readonly path: string }
  | {
      readonly type: 'progress'
      readonly file: string
      /** Bytes that have arrived. */
      readonly done: number
      readonly total: number
      /** Bytes per second, lately. */
      readonly rate: number
      /** Seconds left; null while the rate is unknown. */
      readonly eta: number | null
    }
  /** All bytes are there; their hash is computed. */
  | { readonly type: 'check'; readonly file: string }
  /** Nothing follows. */
  | { readonly type: 'error'; readonly message: string }
  | {
      readonly type: 'done'
      /** The id that the model is served under. */
      readonly id: string
      /** Its further names. */
      readonly aliases: readonly string[]
      readonly card: string
      readonly model: string
      readonly projector: string | null
      /** Source of the card that this one replaces. */
      readonly replaces: string | null
      /** From the catalogue: the model's faults, and the prompt that it was trained with. */
      readonly faults: readonly string[]
      readonly prompt: string | null
    }

export type Report = (event: PullEvent) => void
