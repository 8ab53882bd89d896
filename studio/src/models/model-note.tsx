import { GET_MODEL } from '../mode-choice.ts'
import { model } from '../server/connection.ts'
import { engineOf } from '../server-status/status.ts'
import { isUnderWay, newModel, placesWarning } from './examination.ts'
import { progressText } from './examination-view.tsx'

/** A quiet line about the chosen model: that it is the demonstration, or the progress and result of its examination. */
export function ModelNote() {
  const id = model.value?.id
  const engine = id === undefined ? null : engineOf(id)
  if (engine?.demonstration === true) {
    return (
      <p class="model-note">
        Demonstration model: shapes, emoji, printed words. For photographs, <a href={GET_MODEL}>get a model</a>.
      </p>
    )
  }
  const examination = engine?.examination
  if (!examination || !(isUnderWay(examination) || newModel.value === id)) return null
  return (
    <p class="model-note" role="status">
      {progressText(examination)}
    </p>
  )
}

/** Says that what the chosen model draws is not where it should be. */
export function PlacesWarning() {
  const id = model.value?.id
  const warning = id === undefined ? null : placesWarning(engineOf(id)?.examination)
  if (warning === null) return null
  return (
    <p class="places-warning" title="A patch is the smallest square of a picture that a model looks at.">
      {warning}. Another model may do better.
    </p>
  )
}
