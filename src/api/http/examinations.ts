import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { ModelExaminationBody } from './wire/server-status.ts'

/** What is known of a model from its examination. */
export interface Examination extends Omit<ModelExaminationBody, 'finished_at' | 'places_off_by'> {
  /** ISO 8601. */
  readonly finishedAt: string | null
  readonly placesOffBy: number | null
}

/** The examinations of stored models, as far as clients see and steer them. */
export interface Examinations {
  /** Examines a model from the beginning, when its turn comes. */
  start(model: ServedModel): Promise<Examination>
  /** Ends the examination of a model. @returns null where there is none, as `of` does. */
  skip(model: ServedModel): Promise<Examination | null>
  of(model: ServedModel): Promise<Examination | null>
  /** What clients of a model should know before they use its answers, in a sentence; null for nothing. */
  warningOf(model: ServedModel): Promise<string | null>
}

export function toExaminationBody(examination: Examination): ModelExaminationBody {
  const { state, finishedAt, overall, ok, placesOffBy, findings, unchecked } = examination
  const finished = finishedAt === null ? null : Math.floor(Date.parse(finishedAt) / 1000)
  return { state, finished_at: finished, overall, ok, places_off_by: placesOffBy, findings, unchecked }
}
