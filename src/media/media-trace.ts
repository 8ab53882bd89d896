import type { TracedStage } from '../lib/traced-stage.ts'
import type { MediaKind } from './media-type.ts'

/** Shows what the media of one request takes, in the request's trace. */
export interface MediaTrace {
  /** @param host the host that media is fetched from; left out for media that this server has. */
  begin(stage: MediaStage, kind: MediaKind, host?: string): TracedStage
}

export type MediaStage = 'fetch' | 'decode'
