import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { ModelExaminationBody } from './wire/server-status.ts'

/** The results of a model's examination. */
export interface Examination extends Omit<ModelExaminationBody, 'finished_at' | 'places_off_by'> {
  /** ISO 8601. */
  readonly finishedAt: string | null
  readonly placesOffBy: number | null
}

/** The examinations of stored models, as clients see and control them. */
export interface Examinations {
  /** Queues a model for a new examination. */
  start(model: ServedModel): Promise<Examination>
  /** Ends the examination of a model. Like `of`, it returns null if there is none. */
  skip(model: ServedModel): Promise<Examination | null>
  of(model: ServedModel): Promise<Examination | null>
  /** Returns a warning for the model's clients, in one sentence; null for none. */
  warningOf(model: ServedModel): Promise<string | null>
}

export function toExaminationBody(examination: Examination): ModelExaminationBody {
  const { state, finishedAt, overall, ok, placesOffBy, findings, unchecked } = examination
  const finished = finishedAt === null ? null : Math.floor(Date.parse(finishedAt) / 1000)
  return { state, finished_at: finished, overall, ok, places_off_by: placesOffBy, findings, unchecked }
}
