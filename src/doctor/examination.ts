import type { Engine } from '../inference/contract/engine.ts'
import type { Priority } from '../inference/contract/priority.ts'
import { ApiError } from '../lib/errors/errors.ts'
import type { ModelCard, ServedId } from '../models/card.ts'
import { checkCoordinates, checkPlainCoordinates } from './checks/coordinates.ts'
import { checkDevice } from './checks/device.ts'
import { checkEmbeddings } from './checks/embeddings.ts'
import { checkSameAnswers } from './checks/same-answers.ts'
import { checkSchema } from './checks/schema.ts'
import { checkSeveralImages } from './checks/several-images.ts'
import { checkSight } from './checks/sight.ts'
import { checkSpeed } from './checks/speed.ts'
import { checkTemplate } from './checks/template.ts'
import { checkThoughts } from './checks/thoughts.ts'
import { checkTools } from './checks/tools.ts'
import { drawExhibits, type Exhibit } from './exhibit.ts'
import type { Finding } from './finding.ts'
import { openSubject, type Subject, type SubjectOptions } from './subject.ts'

/** @param earlier the findings of the checks before it. */
type Check = (
  subject: Subject,
  exhibits: readonly Exhibit[],
  earlier: readonly Finding[],
) => Promise<Finding | readonly Finding[]>

const CHECKS = {
  template: checkTemplate,
  images: checkSight,
  coordinates: checkCoordinates,
  'coordinates in plain words': checkPlainCoordinates,
  'several images': checkSeveralImages,
  tools: checkTools,
  thoughts: checkThoughts,
  'JSON schema': checkSchema,
  'same answers': checkSameAnswers,
  speed: checkSpeed,
  device: checkDevice,
} as const satisfies Readonly<Record<string, Check>>

export type CheckName = keyof typeof CHECKS

/** The checks that matter before a model's first use, in the order in which they run. */
export const FIRST_CHECKS: readonly CheckName[] = ['template', 'images', 'coordinates', 'tools', 'thoughts']

/** Images that the model is asked about. Fewer say less; six are the fewest that can exclude chance. */
export const IMAGES = { default: 12, first: 8, fewest: 6, most: 100 } as const

export interface ExaminationOptions extends Pick<SubjectOptions, 'media'> {
  readonly card: ModelCard
  /** The id of the card whose promises are checked. */
  readonly served: ServedId
  /** Loaded. If its speed is measured, it must serve no other requests. */
  readonly engine: Engine
  /** Number of images. */
  readonly images: number
  /** By default all. */
  readonly checks?: readonly CheckName[]
  /** Findings of earlier checks. */
  readonly earlier?: readonly Finding[]
  /** `interactive` by default. */
  readonly priority?: Priority
  /** Ends the examination, which then throws its reason. */
  readonly signal?: AbortSignal
}

/** The engine was unavailable for too long, which says nothing about the model. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable'
}

/** The findings of one check; `card` if the model cannot be asked anything, or writes no text. */
export interface Checked {
  readonly check: CheckName | 'card'
  readonly findings: readonly Finding[]
}

/**
 * Examines whether a model does what its card promises, and yields findings as they are made. A check that cannot be
 * carried out, or a model that cannot be asked anything, is a finding too.
 */
export async function* examine(options: ExaminationOptions): AsyncGenerator<Finding, void, void> {
  for await (const { findings } of examineByCheck(options)) yield* findings
}

/**
 * The same, check by check.
 * @throws Unavailable; the reason of the signal.
 */
export async function* examineByCheck(options: ExaminationOptions): AsyncGenerator<Checked, void, void> {
  const { images, checks = Object.keys(CHECKS) as CheckName[], priority = 'interactive' } = options
  const { signal = new AbortController().signal } = options
  const { card, engine } = options
  if (card.embedding !== undefined) {
    const isRank = card.embedding.pooling === 'rank'
    yield { check: 'card', findings: [await checkEmbeddings(engine, isRank, signal)] }
    return
  }
  const subject = await openSubject({ ...options, priority, signal }).catch((error: Error) => error)
  signal.throwIfAborted()
  if (subject instanceof Error) {
    yield { check: 'card', findings: [{ check: 'card', verdict: 'failed', finding: subject.message }] }
    return
  }
  try {
    const exhibits = subject.blindness === null ? await drawExhibits(subject, images) : []
    const earlier: Finding[] = [...(options.earlier ?? [])]
    for (const check of checks) {
      const findings = await findingsOf(check, () => CHECKS[check](subject, exhibits, earlier), signal)
      earlier.push(...findings)
      yield { check, findings }
    }
  } finally {
    await subject.close()
  }
}

/** An engine that ends within a check is started again. */
const TRIES = 3

async function findingsOf(
  check: CheckName,
  run: () => ReturnType<Check>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  for (let tries = 1; ; tries++) {
    try {
      return [await run()].flat()
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof Unavailable) throw error
      if (error instanceof ApiError && error.status === 503 && tries < TRIES) continue
      return [{ check, verdict: 'failed', finding: error instanceof Error ? error.message : String(error) }]
    }
  }
}
