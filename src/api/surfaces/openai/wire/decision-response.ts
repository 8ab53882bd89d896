import { z } from 'zod'
import { responseSchemas } from '../../../http/wire/components.ts'

const tokens = z.int().min(0)
const share = z.number().min(0).max(1)
const name = z.string().nullable()
const labelMass = share.describe(
  'The probability that the model answers with any of the options, before it is normalised over them.',
)

const predicate = z
  .object({ type: z.literal('predicate'), name, probability: share, x_label_mass: labelMass })
  .register(responseSchemas, { id: 'PredicateAnswer' })

const value = z.union([z.string(), z.boolean()])
const choiceProbability = z.object({ value, probability: share }).register(responseSchemas, { id: 'ChoiceProbability' })
const choice = z
  .object({
    type: z.literal('choice'),
    name,
    choice: value,
    confidence: share,
    probabilities: z.array(choiceProbability),
    x_label_mass: labelMass,
  })
  .register(responseSchemas, { id: 'ChoiceAnswer' })

const levelProbability = z
  .object({ label: z.string(), value: z.int().min(0), probability: share })
  .register(responseSchemas, { id: 'LevelProbability' })
const score = z
  .object({
    type: z.literal('score'),
    name,
    score: z.number().describe('The mean of the levels’ values, which are 0, 1, 2 and so on.'),
    confidence: share,
    probabilities: z.array(levelProbability),
    x_label_mass: labelMass,
  })
  .register(responseSchemas, { id: 'ScoreAnswer' })

const countProbability = z
  .object({ value: z.int().min(0), probability: share })
  .register(responseSchemas, { id: 'CountProbability' })
const count = z
  .object({
    type: z.literal('x_count'),
    name,
    count: z.int().min(0).describe('The likeliest number.'),
    confidence: share,
    probabilities: z.array(countProbability),
    x_label_mass: labelMass,
  })
  .register(responseSchemas, { id: 'CountAnswer' })

const confidence = share.nullable()
const asset_index = z
  .int()
  .min(0)
  .optional()
  .describe(
    'Index of the medium that it is in, from 0; present if something was found and the input has several media.',
  )
const edges = z
  .object({ top: share, bottom: share, left: share, right: share })
  .register(responseSchemas, { id: 'BoxEdges' })
const box = z
  .object({ type: z.literal('x_box'), name, box: edges.nullable(), confidence, asset_index })
  .register(responseSchemas, { id: 'BoxAnswer' })
const place = z.object({ x: share, y: share }).register(responseSchemas, { id: 'PointPlace' })
const point = z
  .object({ type: z.literal('x_point'), name, point: place.nullable(), confidence, asset_index })
  .register(responseSchemas, { id: 'PointAnswer' })
const seconds = z
  .object({ start_seconds: z.number().min(0), end_seconds: z.number().min(0) })
  .register(responseSchemas, { id: 'ClipTimes' })
const clip = z
  .object({ type: z.literal('x_clip'), name, clip: seconds.nullable(), confidence, asset_index })
  .register(responseSchemas, { id: 'ClipAnswer' })

const refusal = z.object({ type: z.literal('refusal'), name }).register(responseSchemas, { id: 'RefusedAnswer' })

const answer = z
  .discriminatedUnion('type', [predicate, choice, score, count, box, point, clip, refusal])
  .register(responseSchemas, { id: 'DecisionAnswer' })

const inputDetails = z
  .object({
    cached_tokens: tokens.describe('The part of input_tokens that this request computed once and reused.'),
    cache_write_tokens: tokens,
  })
  .register(responseSchemas, { id: 'DecisionInputTokensDetails' })
const outputDetails = z
  .object({ reasoning_tokens: tokens })
  .register(responseSchemas, { id: 'DecisionOutputTokensDetails' })
const usage = z
  .object({
    input_tokens: tokens.describe('Tokens of all questions, each with the whole input.'),
    input_tokens_details: inputDetails,
    output_tokens: tokens,
    output_tokens_details: outputDetails,
    total_tokens: tokens,
  })
  .register(responseSchemas, { id: 'DecisionUsage' })

/** Response of `POST /v1/decisions`. */
export const decision = z
  .object({ answers: z.array(answer), model: z.string(), usage })
  .register(responseSchemas, { id: 'Decision' })

export type DecisionAnswerBody = z.output<typeof answer>
export type DecisionResponseBody = z.output<typeof decision>
