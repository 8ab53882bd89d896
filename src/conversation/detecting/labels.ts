import type { DetectionKind } from '../../grounding/dialect.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { invalidRequest, say } from '../../lib/errors/errors.ts'
import { sumOf } from '../../lib/sum.ts'
import type { Targets } from '../request/detect-request.ts'

/** Maximum characters of all labels together. They become part of a pattern, whose size is limited. */
const MOST_CHARACTERS = 4000
/** Maximum branches over one image. With more labels, several share a branch. */
const MOST_SEARCHES = 16

/** Splits the labels into one group per branch. */
export function groupsOf(labels: readonly string[] | null): readonly (readonly string[] | null)[] {
  if (labels === null) return [null]
  const size = Math.ceil(labels.length / MOST_SEARCHES)
  return Array.from({ length: Math.ceil(labels.length / size) }, (_, i) => labels.slice(i * size, (i + 1) * size))
}

/**
 * Returns the labels that objects may have: the categories or, without any, the exemplars' mentions. Null for any label.
 */
export function labelsOf({ categories, exemplars }: Targets): readonly string[] | null {
  const shown = exemplars.flatMap(({ annotations }, i) =>
    annotations.map(({ mention }, j) => {
      if (mention !== null || new Set(categories).size === 1) return mention ?? categories[0]!
      const param = ['exemplars', i, 'annotations', j, 'mention']
      throw invalidRequest(say`Missing '${param}': it is required unless there is exactly one category`, param)
    }),
  )
  const labels = [...new Set(categories.length > 0 ? categories : shown)]
  const length = sumOf(labels, (label) => label.length)
  if (length > MOST_CHARACTERS) {
    const param = categories.length > 0 ? 'categories' : 'exemplars'
    throw invalidRequest(`All labels together may have at most ${MOST_CHARACTERS} characters, got ${length}`, param)
  }
  return labels.length === 0 ? null : labels
}

/** Points are requested for a single label, or from a model without boxes. Otherwise they are the centres of boxes. */
export function kindToFind(
  { output, exemplars, negatives }: Targets,
  labels: readonly string[] | null,
  { served }: ServedModel,
): DetectionKind {
  if (!served.outputFormats.includes('box')) return 'point'
  const single = labels?.length === 1 && exemplars.length === 0 && negatives.length === 0
  return output === 'point' && single && served.outputFormats.includes('point') ? 'point' : 'box'
}
