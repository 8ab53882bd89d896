import { describeOffload } from '../../inference/contract/offload.ts'
import type { Finding } from '../finding.ts'
import type { Subject } from '../subject.ts'

/** Which parts of the model run on the CPU and which on GPUs. */
export async function checkDevice({ engine: { offload } }: Subject): Promise<Finding> {
  const check = 'device'
  if (!offload) return { check, verdict: 'skipped', finding: 'The model runs on other machines.' }
  const place = describeOffload(offload)
  const finding = `${place[0]!.toUpperCase()}${place.slice(1)}.`
  const numbers = { ...offload }
  if (offload.problem === null) return { check, verdict: 'measured', finding, numbers }
  return { check, verdict: 'warning', finding: `${finding} ${offload.problem}`, numbers }
}
