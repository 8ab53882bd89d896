import { z } from 'zod'
import { responses } from '../../../http/wire/components.ts'

const tokens = z.int().min(0)
const share = z.number().min(0).max(1)
const name = z.string().nullable()
const labelMass = share.describe(
  'The probability that the model answers with any of the options, before it is normalised over them.',
)

const predicate = responses.object('PredicateAnswer', {
  type: z.literal('predicate'),
  name,
  probability: share,
  x_label_mass: labelMass,
})

const value = z.union([z.string(), z.boolean()])
const choiceProbability = responses.object('ChoiceProbability', { value, probability: share })
const choice = responses.object('ChoiceAnswer', {
  type: z.literal('choice'),
  name,
  choice: value,
  confidence: share,
  probabilities: z.array(choiceProbability),
  x_label_mass: labelMass,
})

const levelProbability = responses.object('LevelProbability', {
  label: z.string(),
  value: z.int().min(0),
  probability: share,
})
const score = responses.object('ScoreAnswer', {
  type: z.literal('score'),
  name,
  score: z.number().describe('The mean of the levels’ values, which are 0, 1, 2 and so on.'),
  confidence: share,
  probabilities: z.array(levelProbability),
  x_label_mass: labelMass,
})

const countProbability = responses.object('CountProbability', { value: z.int().min(0), probability: share })
const count = responses.object('CountAnswer', {
  type: z.literal('x_count'),
  name,
  count: z.int().min(0).describe('The likeliest number.'),
  confidence: share,
  probabilities: z.array(countProbability),
  x_label_mass: labelMass,
})

const confidence = share.nullable()
const asset_index = z
  .int()
  .min(0)
  .optional()
  .describe(
    'Index of the medium that it is in, from 0; present if something was found and the input has several media.',
  )
export const edges = responses.object('BoxEdges', { top: share, bottom: share, left: share, right: share })
const box = responses.object('BoxAnswer', {
  type: z.literal('x_box'),
  name,
  box: edges.nullable(),
  confidence,
  asset_index,
})
const place = responses.object('PointPlace', { x: share, y: share })
const point = responses.object('PointAnswer', {
  type: z.literal('x_point'),
  name,
  point: place.nullable(),
  confidence,
  asset_index,
})
const seconds = responses.object('ClipTimes', { start_seconds: z.number().min(0), end_seconds: z.number().min(0) })
const clip = responses.object('ClipAnswer', {
  type: z.literal('x_clip'),
  name,
  clip: seconds.nullable(),
  confidence,
  asset_index,
})

const refusal = responses.object('RefusedAnswer', { type: z.literal('refusal'), name })

export const answer = responses.union('DecisionAnswer', 'type', [
  predicate,
  choice,
  score,
  count,
  box,
  point,
  clip,
  refusal,
])

const inputDetails = responses.object('DecisionInputTokensDetails', {
  cached_tokens: tokens.describe('The part of input_tokens that this request computed once and reused.'),
  cache_write_tokens: tokens,
})
const outputDetails = responses.object('DecisionOutputTokensDetails', { reasoning_tokens: tokens })
const usage = responses.object('DecisionUsage', {
  input_tokens: tokens.describe('Tokens of all questions, each with the whole input.'),
  input_tokens_details: inputDetails,
  output_tokens: tokens,
  output_tokens_details: outputDetails,
  total_tokens: tokens,
})

/** Response of `POST /v1/decisions`. */
export const decision = responses.object('Decision', { answers: z.array(answer), model: z.string(), usage })

export type DecisionAnswerBody = z.output<typeof answer>
export type DecisionResponseBody = z.output<typeof decision>
