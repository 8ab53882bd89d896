import { invalidRequest } from '../../../lib/errors/errors.ts'
import { isValueDeeper, MOST_JSON_LEVELS } from '../../../lib/json/json-depth.ts'
import type { RgbImage } from '../../../media/pixels.ts'
import { schemasIn } from '../../contract/constraint.ts'
import type { PromptPart } from '../../contract/parts.ts'
import type { Work } from '../../contract/work.ts'
import { type Envelope, pack } from '../envelope.ts'
import type { CountedPrompt } from '../protocol.ts'

/**
 * Packs a work for the engine process.
 * @throws ApiError 400 for a schema nested so deep that recursion over it could exhaust the stack.
 */
export function packWork(work: Work): Envelope {
  for (const { constraint } of work.branches) {
    if (constraint === undefined || !schemasIn(constraint).some((schema) => isValueDeeper(schema))) continue
    throw invalidRequest(`The schema is nested deeper than ${MOST_JSON_LEVELS} levels`, constraint.param ?? null)
  }
  return pack(work)
}

/** Packs a work without its pixels, for measuring it. */
export function packSizes(work: Work): Envelope {
  return packWork({
    ...work,
    prefix: work.prefix.map(withoutPixels),
    branches: work.branches.map((branch) => ({ ...branch, suffix: branch.suffix.map(withoutPixels) })),
  })
}

/** Packs a prompt for counting its tokens. An image's tokens follow from its size, so no pixels are sent. */
export function packPrompt(parts: readonly PromptPart[], organisation: string): Envelope {
  return pack({ organisation, parts: parts.map(withoutPixels) } satisfies CountedPrompt)
}

function withoutPixels(part: PromptPart): PromptPart {
  if (part.type === 'image') return { type: 'image', image: emptied(part.image) }
  return part.type === 'frames' ? { type: 'frames', frames: part.frames.map(emptied) } : part
}

function emptied({ width, height }: RgbImage): RgbImage {
  return { width, height, data: new Uint8Array(0) }
}
