import { type ExaminationOptions, examine } from '../../src/doctor/examination.ts'
import type { Finding } from '../../src/doctor/finding.ts'
import type { Engine } from '../../src/inference/contract/engine.ts'
import type { ModelCard } from '../../src/models/card.ts'

/** What the doctor finds of a model behind an engine, with few images. */
export async function findingsOf(
  card: ModelCard,
  engine: Engine,
  options: Pick<ExaminationOptions, 'checks'> = {},
): Promise<Finding[]> {
  const findings: Finding[] = []
  for await (const finding of examine({ card, served: card.serves[0]!, engine, images: 6, ...options }))
    findings.push(finding)
  return findings
}

/** The findings' verdicts by their checks. */
export function verdictsOf(findings: readonly Finding[]): Record<string, string> {
  return Object.fromEntries(findings.map((one) => [one.check, one.verdict]))
}

export function textOf(findings: readonly Finding[], check: string): string | undefined {
  return findings.find((one) => one.check === check)?.finding
}
