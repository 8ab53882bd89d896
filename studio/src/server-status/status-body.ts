/** What `GET /v1/server` answers. */
export interface ServerStatus {
  readonly version: string
  readonly uptime_seconds: number
  /** What the page's key may do. */
  readonly scopes: readonly Scope[]
  readonly running: number
  readonly queued: number
  readonly tokens_per_second: number
  /** From 0 to 1; null without any prompt. */
  readonly cached_share: number | null
  readonly memory: {
    readonly process_bytes: number
    readonly engine_bytes: number
    readonly available_bytes: number
    readonly total_bytes: number
  }
  readonly engines: readonly EngineStatus[]
}

export type Scope = 'inference' | 'files' | 'admin' | 'watch'

/** What the doctor found out about a model after it was pulled. */
export interface Examination {
  readonly state: 'waiting' | 'running' | 'done' | 'skipped' | 'failed'
  readonly overall: string | null
  readonly ok: boolean | null
  /** Mean error of boxes or points in patches, in the notation of the model's card; null where it was not measured. */
  readonly places_off_by: number | null
  readonly findings: readonly Finding[]
  /** Names of the checks that have not ended. */
  readonly unchecked: readonly string[]
}

export interface Finding {
  readonly check: string
  readonly verdict: 'ok' | 'warning' | 'failed' | 'noise' | 'skipped' | 'measured'
  readonly finding: string
}

export interface EngineStatus {
  readonly models: readonly string[]
  /** Whether the models were pulled or added, and can be deleted. */
  readonly stored: boolean
  /** Whether it is the model that Lookout ships to show what it does. */
  readonly demonstration: boolean
  /** Null for a model that was never pulled. */
  readonly examination: Examination | null
  readonly state: 'unloaded' | 'starting' | 'ready' | 'restarting' | 'closed'
  readonly running: number
  readonly queued: number
  readonly tokens_per_second: number
  readonly cached_share: number | null
  /** Null where it is not loaded, or runs on other machines. */
  readonly memory_bytes: number | null
}
