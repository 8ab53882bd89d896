import type { TracedStage } from '../lib/traced-stage.ts'
import type { MediaKind } from './media-type.ts'

/** Follows the media of one request. */
export interface MediaTrace {
  /**
   * Adds a stage of media to the request's trace; absent if the request is not traced.
   * @param host the host that media is fetched from; omitted for media that this server stores.
   */
  begin?(stage: MediaStage, kind: MediaKind, host?: string): TracedStage
  /**
   * Notes, in a sentence without a full stop, which part of the input the model does not get. May be called twice for
   * the same.
   * @param level for the log; `warn` by default.
   */
  note?(param: string, text: string, level?: 'info' | 'warn'): void
  /** Reports the length of a recording, in seconds. */
  heard?(seconds: number): void
}

export type MediaStage = 'fetch' | 'decode'
