import { invalidRequest } from '../../../lib/errors.ts'
import { isValueDeeper, MOST_JSON_LEVELS } from '../../../lib/json-depth.ts'
import type { RgbImage } from '../../../media/pixels.ts'
import type { Constraint, PromptPart, Work } from '../../engine.ts'
import { type Envelope, pack } from '../envelope.ts'
import type { CountedPrompt } from '../protocol.ts'

/**
 * A work as it goes to the engine's process.
 * @throws ApiError 400 for a schema that would exhaust the stack of whoever follows it.
 */
export function packWork(work: Work): Envelope {
  for (const { constraint } of work.branches) {
    if (constraint === undefined || !schemasOf(constraint).some((schema) => isValueDeeper(schema))) continue
    throw invalidRequest(`The schema is nested deeper than ${MOST_JSON_LEVELS} levels`, constraint.param ?? null)
  }
  return pack(work)
}

/** The same for a prompt whose tokens are to be counted. Those of a picture follow from its size: no pixels cross. */
export function packPrompt(parts: readonly PromptPart[], organisation: string): Envelope {
  return pack({ organisation, parts: parts.map(withoutPixels) } satisfies CountedPrompt)
}

function schemasOf(constraint: Constraint): unknown[] {
  const contents = constraint.type === 'triggered_tags' ? constraint.tags.map(({ content }) => content) : [constraint]
  return contents.flatMap((content) => (content.type === 'json_schema' ? [content.schema] : []))
}

function withoutPixels(part: PromptPart): PromptPart {
  if (part.type === 'image') return { type: 'image', image: emptied(part.image) }
  return part.type === 'frames' ? { type: 'frames', frames: part.frames.map(emptied) } : part
}

function emptied({ width, height }: RgbImage): RgbImage {
  return { width, height, data: new Uint8Array(0) }
}
