import type { ModelCard } from '../../../models/card.ts'
import { encoderProblem } from '../native/native-paths.ts'

export { encoderProblem }

/** Why this machine cannot run a model's encoders, and what to do about it; null where it can, or the model has none. */
export function missingEncoder({ engine }: ModelCard): string | null {
  return engine.type === 'local' && engine.projector !== undefined ? encoderProblem() : null
}
