import type { TracedStage } from '../lib/traced-stage.ts'
import type { MediaKind } from './media-type.ts'

/** Follows the media of one request. */
export interface MediaTrace {
  /**
   * Shows what media takes, in the request's trace; absent where the request is not traced.
   * @param host the host that media is fetched from; left out for media that this server has.
   */
  begin?(stage: MediaStage, kind: MediaKind, host?: string): TracedStage
  /**
   * Says, in a sentence without a full stop, what of the input the model does not get. May repeat itself.
   * @param level for the log; `warn` by default.
   */
  note?(param: string, text: string, level?: 'info' | 'warn'): void
  /** Says how long a recording is, in seconds. */
  heard?(seconds: number): void
}

export type MediaStage = 'fetch' | 'decode'
