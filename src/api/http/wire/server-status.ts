import { z } from 'zod'
import { responses } from './components.ts'

const count = z.int().min(0)
const rate = z.number().min(0).describe('Tokens generated per second, over the last five seconds.')
const share = z
  .number()
  .min(0)
  .max(1)
  .nullable()
  .describe('Part of the prompt tokens that a cache had; null without any.')

const examinationFinding = responses.object('ExaminationFinding', {
  check: z.string(),
  verdict: z.enum(['ok', 'warning', 'failed', 'noise', 'skipped', 'measured']),
  finding: z.string(),
})

/** The doctor's findings about a pulled model. */
export const modelExamination = responses.object('ModelExamination', {
  state: z
    .enum(['waiting', 'running', 'done', 'skipped', 'failed'])
    .describe('`waiting`: for another one, or for memory. `failed`: it could not be carried out, or not to its end.'),
  finished_at: z.int().nullable().describe('Unix seconds.'),
  overall: z.string().nullable().describe('A few sentences for people; null before any check has ended.'),
  ok: z.boolean().nullable().describe('Whether the model does what its card promises, as far as it was checked.'),
  places_off_by: z
    .number()
    .min(0)
    .nullable()
    .describe('Mean error of boxes or points in patches, in the notation of the card; null where it was not measured.'),
  findings: z.array(examinationFinding),
  unchecked: z.array(z.string()).describe('Checks that have not ended yet, or were skipped.'),
})

export type ModelExaminationBody = z.output<typeof modelExamination>

const engineStatus = responses.object('EngineStatus', {
  models: z.array(z.string()).describe('Ids that it answers for.'),
  stored: z.boolean().describe('Whether they were pulled or added: only those can be deleted.'),
  demonstration: z
    .boolean()
    .describe('Whether it is the model that Lookout ships to show what it does, which knows nothing of photographs.'),
  state: z.enum(['unloaded', 'starting', 'ready', 'restarting', 'closed']),
  running: count.describe('Completions that are being generated.'),
  queued: count.describe('Requests that wait for that, or for the model to load.'),
  tokens_per_second: rate,
  cached_share: share,
  memory_bytes: count.nullable().describe('Of its process; null where it has none.'),
  examination: modelExamination.nullable().describe('Null where the model was never examined.'),
})

const memoryStatus = responses.object('MemoryStatus', {
  process_bytes: count.describe('Of the process that answers requests.'),
  engine_bytes: count.describe('Of the processes of all engines.'),
  available_bytes: count,
  total_bytes: count,
})

/** Response of `GET /v1/server`. */
export const serverStatus = responses.object('ServerStatus', {
  object: z.literal('server'),
  version: z.string(),
  started_at: z.int(),
  uptime_seconds: count,
  scopes: z.array(z.enum(['inference', 'files', 'admin'])).describe('What the key of the request may do.'),
  running: count,
  queued: count,
  tokens_per_second: rate,
  cached_share: share,
  memory: memoryStatus,
  engines: z.array(engineStatus),
})

export type ServerStatusBody = z.output<typeof serverStatus>
