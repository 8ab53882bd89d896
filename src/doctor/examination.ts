import type { Engine } from '../inference/engine.ts'
import type { ModelCard, ServedId } from '../models/card.ts'
import { checkCoordinates } from './checks/coordinates.ts'
import { checkDevice } from './checks/device.ts'
import { checkSchema } from './checks/schema.ts'
import { checkSeveralImages } from './checks/several-images.ts'
import { checkSight } from './checks/sight.ts'
import { checkSpeed } from './checks/speed.ts'
import { checkTemplate } from './checks/template.ts'
import { checkThoughts } from './checks/thoughts.ts'
import { checkTools } from './checks/tools.ts'
import { drawExhibits, type Exhibit } from './exhibit.ts'
import type { Finding } from './finding.ts'
import { Subject } from './subject.ts'

/** @param earlier the findings of the checks before it. */
type Check = (
  subject: Subject,
  exhibits: readonly Exhibit[],
  earlier: readonly Finding[],
) => Promise<Finding | readonly Finding[]>

const CHECKS: Readonly<Record<string, Check>> = {
  template: checkTemplate,
  images: checkSight,
  coordinates: checkCoordinates,
  'several images': checkSeveralImages,
  tools: checkTools,
  thoughts: checkThoughts,
  'JSON schema': checkSchema,
  speed: checkSpeed,
  device: checkDevice,
}

/** Images that the model is asked about. Fewer say less; six are the fewest that can exclude chance. */
export const IMAGES = { default: 12, fewest: 6, most: 100 } as const

export interface ExaminationOptions {
  readonly card: ModelCard
  /** The id, of those that the card serves, whose promises are checked. */
  readonly served: ServedId
  /** Loaded, and used by nobody else: what is measured is its speed. */
  readonly engine: Engine
  /** Number of images. */
  readonly images: number
}

/**
 * Examines a model: what it does, against what its card promises. Findings come as they are made. That a check cannot be
 * carried out, or the model cannot be asked anything, is a finding, too.
 */
export async function* examine(options: ExaminationOptions): AsyncGenerator<Finding, void, void> {
  const { card, served, engine, images } = options
  const subject = await Subject.open(card, served, engine).catch((error: Error) => error)
  if (subject instanceof Error) {
    yield { check: 'card', verdict: 'failed', finding: subject.message }
    return
  }
  try {
    const exhibits = subject.blindness === null ? await drawExhibits(subject, images) : []
    const earlier: Finding[] = []
    for (const [check, run] of Object.entries(CHECKS)) {
      const made = await findings(check, () => run(subject, exhibits, earlier))
      earlier.push(...made)
      yield* made
    }
  } finally {
    await subject.close()
  }
}

async function findings(check: string, run: () => ReturnType<Check>): Promise<readonly Finding[]> {
  try {
    return [await run()].flat()
  } catch (error) {
    return [{ check, verdict: 'failed', finding: error instanceof Error ? error.message : String(error) }]
  }
}
