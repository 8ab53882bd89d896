import { z } from 'zod'
import { responses } from './components.ts'

const count = z.int().min(0)
const rate = z.number().min(0).describe('Tokens generated per second, over the last five seconds.')
const share = z
  .number()
  .min(0)
  .max(1)
  .nullable()
  .describe('Fraction of the prompt tokens that came from a cache; null without prompt tokens.')

const examinationFinding = responses.object('ExaminationFinding', {
  check: z.string(),
  verdict: z.enum(['ok', 'warning', 'failed', 'noise', 'skipped', 'measured']),
  finding: z.string(),
})

/** The doctor's findings about a pulled model. */
export const modelExamination = responses.object('ModelExamination', {
  state: z
    .enum(['waiting', 'running', 'done', 'skipped', 'failed'])
    .describe('`waiting`: for another examination, or for memory. `failed`: it could not start or finish.'),
  finished_at: z.int().nullable().describe('Unix seconds.'),
  overall: z.string().nullable().describe('A short summary for people; null until a check has ended.'),
  ok: z.boolean().nullable().describe('Whether the model does what its card promises, as far as it was checked.'),
  places_off_by: z
    .number()
    .min(0)
    .nullable()
    .describe('Mean error of boxes or points in patches, in the notation of the card; null where it was not measured.'),
  findings: z.array(examinationFinding),
  unchecked: z.array(z.string()).describe('Checks that have not finished yet or were skipped.'),
})

export type ModelExaminationBody = z.output<typeof modelExamination>

const engineStatus = responses.object('EngineStatus', {
  models: z.array(z.string()).describe('Ids of the models that it serves.'),
  stored: z.boolean().describe('Whether these models were pulled or added. Only such models can be deleted.'),
  demonstration: z
    .boolean()
    .describe('Whether this is the demonstration model that Lookout ships, which does not understand photographs.'),
  state: z.enum(['unloaded', 'starting', 'ready', 'restarting', 'closed']),
  running: count.describe('Completions in progress.'),
  queued: count.describe('Requests that wait for the engine, or for the model to load.'),
  tokens_per_second: rate,
  cached_share: share,
  memory_bytes: count.nullable().describe('Memory of its process; null if it has none.'),
  examination: modelExamination.nullable().describe('Null if the model was never examined.'),
})

const memoryStatus = responses.object('MemoryStatus', {
  process_bytes: count.describe('Memory of the process that serves the API.'),
  engine_bytes: count.describe('Memory of all engine processes.'),
  available_bytes: count,
  total_bytes: count,
})

/** Response of `GET /v1/server`. */
export const serverStatus = responses.object('ServerStatus', {
  object: z.literal('server'),
  version: z.string(),
  started_at: z.int(),
  uptime_seconds: count,
  scopes: z
    .array(z.enum(['inference', 'files', 'watch', 'admin']))
    .describe('The scopes of the key that made the request.'),
  running: count,
  queued: count,
  tokens_per_second: rate,
  cached_share: share,
  memory: memoryStatus,
  engines: z.array(engineStatus),
})

export type ServerStatusBody = z.output<typeof serverStatus>
