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

export type Scope = 'inference' | 'files' | 'admin'

export interface EngineStatus {
  readonly models: readonly string[]
  /** Whether the models were pulled or added, and can be deleted. */
  readonly stored: boolean
  /** Whether it is the model that Lookout ships to show what it does. */
  readonly demonstration: boolean
  readonly state: 'unloaded' | 'starting' | 'ready' | 'restarting' | 'closed'
  readonly running: number
  readonly queued: number
  readonly tokens_per_second: number
  readonly cached_share: number | null
  /** Null where it is not loaded, or runs on other machines. */
  readonly memory_bytes: number | null
}
