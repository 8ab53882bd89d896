import type { FastifyInstance } from 'fastify'
import type { Answer, DecisionReply } from '../../../conversation/decisions/decision-reply.ts'
import type { Distribution } from '../../../conversation/decisions/probabilities.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import { ApiError, invalidRequest } from '../../../lib/errors/errors.ts'
import type { ApiCall } from '../../http/api-call.ts'
import { addCalls } from '../../http/client-call.ts'
import { namedModel } from '../../http/named-model.ts'
import { addEndpoint } from '../../http/routes.ts'
import { admit, type Reading, type Serving } from '../admission.ts'
import { edgesOf, mean } from '../openai/decisions.ts'
import { handleError, REQUEST_ID } from './errors.ts'
import type { Parts } from './system-one-content.ts'
import { assetsIn, questionParam, toDecisionRequest } from './system-one-request.ts'
import {
  type SystemOneAnswerBody,
  type SystemOneContentBody,
  type SystemOneModelsBody,
  type SystemOneQuestionBody,
  type SystemOneRequestBody,
  type SystemOneResponseBody,
  systemOneBody,
} from './wire/system-one.ts'

/** TypeSafe's clients use both endpoints below this prefix: their list of models differs from the contract's. */
const PREFIX = '/typesafe'
const NO_PARTS: Parts = new Map()

/** `POST /v1/systemone`, also below the prefix, and `GET /typesafe/v1/models`. The contract has none of them. */
export function addSystemOne(app: FastifyInstance, serving: Serving): void {
  app.register(async (scope) => {
    scope.setErrorHandler(handleError)
    scope.addContentTypeParser('multipart/form-data', (_request, _payload, done) => done(null))
    scope.addHook('onRequest', (request, reply, done) => {
      reply.header(REQUEST_ID, request.id)
      done()
    })
    const answer = (call: ApiCall) => decide(call, serving)
    const answers = { '/v1/systemone': answer, [`${PREFIX}/v1/systemone`]: answer }
    addCalls(scope, { bucket: 'decisions', body: { zstd: true }, answers })
    addEndpoint(scope, {
      url: `${PREFIX}/v1/models`,
      bucket: 'models',
      handlers: { GET: async () => toModels(await serving.models.list()) },
    })
  })
}

async function decide(call: ApiCall, serving: Serving): Promise<SystemOneResponseBody> {
  const { read, model, metered, caller, signal } = await admit(call, serving, READING)
  const { body, parts } = read
  try {
    const asked = await toDecisionRequest(body, parts, model)
    const decided = await serving.conversations.decide(asked, caller, signal)
    const response = toResponse(decided, body, assetsIn(asked))
    metered.finish('stop')
    return response
  } finally {
    // Releases parts that no asset names.
    for (const part of parts.values()) part.release()
  }
}

const READING: Reading<{ body: SystemOneRequestBody; parts: Parts }> = {
  endpoint: 'decisions',
  async read(call, bodies) {
    if (!call.headers['content-type']?.toLowerCase().startsWith('multipart/')) {
      return { body: (await bodies.read(call, systemOneBody)).value, parts: NO_PARTS }
    }
    const { value, parts } = await bodies.readForm(call, systemOneBody)
    return { body: value, parts }
  },
  async find({ body }, models) {
    try {
      return await namedModel(models, body.model)
    } catch (error) {
      throw error instanceof ApiError && error.status === 400 ? error.at('model') : error
    }
  },
}

function toResponse(
  { answers, usage }: DecisionReply,
  body: SystemOneRequestBody,
  assets: readonly string[],
): SystemOneResponseBody {
  const named = Object.entries(body.questions).map(([id, question], i) => {
    return [id, toAnswer(answers[i]!, id, question, assets)]
  })
  return {
    model: body.model,
    answers: Object.fromEntries(named),
    usage: { input_tokens: usage.promptTokens, output_tokens: usage.completionTokens },
  }
}

/** @throws the question's error: the convention has no answer for a failed question. */
function toAnswer(
  answer: Answer,
  id: string,
  question: SystemOneQuestionBody,
  assets: readonly string[],
): SystemOneAnswerBody {
  switch (answer.type) {
    case 'none':
      throw answer.error ?? invalidRequest('The model cannot give any of these answers', questionParam(id))
    case 'read':
      return toRead(answer.distribution, question)
    case 'found': {
      const { place, confidence } = answer
      const edges = edgesOf(place === null || place.kind === 'clip' ? [] : place.points)
      if (edges === null) return { type: 'box', box: { top: 0, bottom: 1, left: 0, right: 1 }, confidence: 0 }
      const asset = place?.assetIdx === undefined ? {} : { x_asset: assets[place.assetIdx]! }
      return { type: 'box', box: edges, confidence, ...asset }
    }
  }
}

function toRead(
  { probabilities, top, confidence }: Distribution,
  question: SystemOneQuestionBody,
): SystemOneAnswerBody {
  switch (question.type) {
    case 'noul':
      return { type: 'noul', noul: probabilities[0]! }
    case 'choice': {
      const names = Object.keys(question.criteria)
      return { type: 'choice', choice: names[top]!, confidence, probabilities: keyed(names, probabilities) }
    }
    case 'score': {
      const values = question.criteria.map((_, value) => String(value))
      return {
        type: 'score',
        score: mean(probabilities),
        confidence,
        legend: keyed(
          values,
          question.criteria.map((text, value) => shown(text) ?? String(value)),
        ),
        probabilities: keyed(values, probabilities),
      }
    }
    default:
      throw new Error(`A question of type ${question.type} is not read`)
  }
}

/** Returns the value as the client wrote it. */
function shown(content: SystemOneContentBody) {
  return typeof content === 'object' && content !== null ? JSON.parse(content.json) : content
}

function keyed<Value>(keys: readonly string[], values: readonly Value[]): Record<string, Value> {
  return Object.fromEntries(keys.map((key, i) => [key, values[i]!]))
}

function toModels(models: readonly ServedModel[]): SystemOneModelsBody {
  return {
    models: models.map(({ id, served }) => ({
      name: id,
      description: served.description ?? served.name,
      release_date: new Date(served.created * 1000).toISOString().slice(0, 10),
    })),
  }
}
