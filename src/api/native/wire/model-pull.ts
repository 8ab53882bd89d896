import { z } from 'zod'
import { bodyFormat } from '../../http/body/body-format.ts'
import { requests, responses } from '../../http/wire/components.ts'

/** Body of `POST /v1/models/pull`. */
export const modelPullRequest = requests.object('ModelPullRequest', {
  model: z
    .string()
    .min(1)
    .max(500)
    .describe(
      'A name from the catalogue or a repository on the hub, optionally with a quantisation: qwen3-vl-4b, user/repository:Q4_K_M.',
    ),
  projector: z
    .enum(['auto', 'none'])
    .nullish()
    .describe('`auto` fetches the image encoder that suits the model; `none` is for text only.'),
  dry_run: z.boolean().nullish().describe('Whether to stop after the choice, before anything is downloaded.'),
  examine: z
    .boolean()
    .nullish()
    .describe('Whether the server then examines the model at the lowest priority. True by default.'),
})

export const modelPullBody = bodyFormat(import.meta.url, 'modelPullRequest', modelPullRequest)

const bytes = z.int().min(0)

const option = responses.object('PullOption', {
  quant: z.string(),
  bytes: bytes.describe('Size of its files and those of the projector.'),
  memory_bytes: bytes.describe('Estimated memory of the loaded model.'),
  fits: z.enum(['yes', 'tight', 'no']),
  cached: z.boolean().describe('Whether all files are already downloaded.'),
  chosen: z.boolean(),
})

const choice = responses.object('PullChoice', {
  type: z.literal('choice'),
  model: z.string(),
  available_bytes: bytes.describe('Memory that models may use.'),
  context_tokens: z.int().min(0).describe('The context for which the memory is estimated.'),
  options: z.array(option),
  projector: z.string().nullable(),
})

const note = responses.object('PullNote', { type: z.literal('note'), message: z.string() })

const found = responses.object('PullFound', { type: z.literal('found'), file: z.string() })

const progress = responses.object('PullProgress', {
  type: z.literal('progress'),
  file: z.string(),
  done_bytes: bytes,
  total_bytes: bytes,
  bytes_per_second: z.number().min(0),
  seconds_left: z.number().nullable().describe('Null while the rate is unknown.'),
})

const check = responses.object('PullCheck', { type: z.literal('check'), file: z.string() })

const done = responses.object('PullDone', {
  type: z.literal('done'),
  id: z.string().describe('The id of the model in requests.'),
  served: z.boolean(),
  reason: z.string().nullable().describe('Why the model is not served.'),
})

/** An event of a pull. `done` is the last one; an error in its place has the shape of all errors. */
export const modelPullEvent = responses.union('ModelPullEvent', 'type', [choice, note, found, progress, check, done])

export type ModelPullEventBody = z.output<typeof modelPullEvent>
