import type { FastifyInstance } from 'fastify'
import type { Answer, DecisionReply, DecisionUsage } from '../../../conversation/decisions/decision-reply.ts'
import type { Distribution } from '../../../conversation/decisions/probabilities.ts'
import { GRID } from '../../../media/coordinates.ts'
import type { ApiCall } from '../../http/api-call.ts'
import { addCalls } from '../../http/client-call.ts'
import { logServerError, toApiError } from '../../http/error-handler.ts'
import { admit, bodiesOf, type Serving } from '../admission.ts'
import { toDecisionRequest } from './decision-request.ts'
import { type DecisionQuestionBody, decisionBody } from './wire/decision-request.ts'
import type { DecisionAnswerBody, DecisionResponseBody } from './wire/decision-response.ts'

const READING = bodiesOf('decisions', decisionBody)

/** `POST /v1/decisions`, which the contract does not have. */
export function addDecisions(app: FastifyInstance, serving: Serving): void {
  addCalls(app, { bucket: 'decisions', answers: { '/v1/decisions': (call) => decide(call, serving) } })
}

export async function decide(call: ApiCall, serving: Serving): Promise<DecisionResponseBody> {
  const { read, metered, caller, signal } = await admit(call, serving, READING)
  const decided = await serving.conversations.decide(toDecisionRequest(read.value), caller, signal)
  metered.finish('stop')
  const { model, questions } = read.value
  return { answers: toAnswers(decided, questions, call), model, usage: toUsage(decided.usage) }
}

export function toAnswers(
  { answers }: DecisionReply,
  questions: readonly DecisionQuestionBody[],
  call: Pick<ApiCall, 'id' | 'logger'>,
): DecisionAnswerBody[] {
  return answers.map((answer, index) => {
    // Only this question failed. The client learns that it has no answer, the operator learns why.
    if (answer.type === 'none' && answer.error !== null) logServerError(toApiError(answer.error), call)
    return toAnswer(answer, questions[index]!)
  })
}

function toAnswer(answer: Answer, question: DecisionQuestionBody): DecisionAnswerBody {
  const name = question.name ?? null
  switch (answer.type) {
    case 'none':
      return { type: 'refusal', name }
    case 'read':
      return toRead(answer.distribution, question, name)
    case 'found':
      return toFound(answer, question, name)
  }
}

function toRead(
  { probabilities, labelMass, top, confidence }: Distribution,
  question: DecisionQuestionBody,
  name: string | null,
): DecisionAnswerBody {
  const { type } = question
  const shares = <Option>(option: (index: number) => Option) => ({
    confidence,
    probabilities: probabilities.map((probability, index) => ({ ...option(index), probability })),
    x_label_mass: labelMass,
  })
  switch (type) {
    case 'predicate':
      return { type, name, probability: probabilities[0]!, x_label_mass: labelMass }
    case 'choice': {
      const { choices } = question
      return { type, name, choice: choices[top]!.value, ...shares((index) => ({ value: choices[index]!.value })) }
    }
    case 'score': {
      const { levels } = question
      const score = mean(probabilities)
      return { type, name, score, ...shares((value) => ({ label: levels[value]!.label, value })) }
    }
    case 'x_count':
      return { type, name, count: top, ...shares((value) => ({ value })) }
    default:
      throw new Error(`A question of type ${type} is not read`)
  }
}

/** Returns the mean of 0, 1, 2 and so on with these probabilities. */
export function mean(probabilities: readonly number[]): number {
  return probabilities.reduce((sum, probability, value) => sum + value * probability, 0)
}

function toFound(
  { place, confidence }: Extract<Answer, { type: 'found' }>,
  { type }: DecisionQuestionBody,
  name: string | null,
): DecisionAnswerBody {
  const asset = place?.assetIdx === undefined ? {} : { asset_index: place.assetIdx }
  if (type === 'x_clip') {
    const clip = place?.kind === 'clip' ? { start_seconds: place.start, end_seconds: place.end ?? place.start } : null
    return { type, name, clip, confidence, ...asset }
  }
  const points = place === null || place.kind === 'clip' ? [] : place.points
  if (type === 'x_point') {
    const [at] = points
    const point = at === undefined ? null : { x: at.x / GRID, y: at.y / GRID }
    return { type, name, point, confidence, ...asset }
  }
  return { type: 'x_box', name, box: edgesOf(points), confidence, ...asset }
}

/** Converts the corners of a box to its edges, as fractions of the picture's sides. */
export function edgesOf([from, to]: readonly { readonly x: number; readonly y: number }[]) {
  if (from === undefined || to === undefined) return null
  return { top: from.y / GRID, bottom: to.y / GRID, left: from.x / GRID, right: to.x / GRID }
}

/** The server has no paid cache into which a request could write tokens. */
function toUsage({ promptTokens, cachedTokens, completionTokens }: DecisionUsage): DecisionResponseBody['usage'] {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + completionTokens,
  }
}
