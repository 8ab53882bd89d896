import { z } from 'zod'
import { bodyFormat } from '../../../http/body/body-format.ts'
import { asText, clientMap } from '../../../http/wire/client-json.ts'
import { requestSchemas, requests, responseSchemas, responses } from '../../../http/wire/components.ts'
import { mediaUrl } from '../../openai/wire/messages.ts'

const MOST_QUESTIONS = 400
const MOST_OPTIONS = 255
const MOST_ASSETS = 256
/** A limit, because every position of every text is searched for each of them. */
const LONGEST_PLACEHOLDER = 64
const placeholder = z.string().min(1).max(LONGEST_PLACEHOLDER)

/** Text, or JSON that the model is shown unchanged. Either may contain placeholders of assets. */
const object = clientMap(z.unknown())
object.register(requestSchemas, { id: 'SystemOneObject' })
object.register(responseSchemas, { id: 'SystemOneObjectShown' })
const shownContent = z.union([z.string(), object, z.array(z.unknown())]).nullable()
/** Values other than text are kept as JSON text. */
const content = z
  .union([z.string(), asText(object).transform(heldJson), asText(z.array(z.unknown())).transform(heldJson)])
  .nullable()

const noul = z
  .strictObject({
    type: z.literal('noul'),
    instructions: content.optional(),
    criteria: requests.strictObject('NoulCriteria', { true: content.optional(), false: content.optional() }).nullish(),
  })
  .superRefine(({ instructions, criteria }, context) => {
    if ((instructions ?? criteria?.true ?? criteria?.false ?? null) !== null) return
    context.addIssue({ code: 'custom', path: ['instructions'], message: 'expected instructions or criteria' })
  })
  .register(requestSchemas, { id: 'NoulQuestion' })

const choice = requests.strictObject('NamedChoiceQuestion', {
  type: z.literal('choice'),
  instructions: content.optional(),
  criteria: sized(content, MOST_OPTIONS, 'choices').register(requestSchemas, { id: 'NamedChoices' }),
})

const score = requests.strictObject('RubricQuestion', {
  type: z.literal('score'),
  instructions: content.optional(),
  criteria: z.array(content).min(1).max(MOST_OPTIONS),
})

const box = requests.strictObject('LocationQuestion', {
  type: z.literal('box'),
  instructions: z.string().refine((text) => text.trim() !== '', 'expected what to look for'),
})

const question = requests.union('SystemOneQuestion', 'type', [noul, choice, score, box])

/** The image in base64; or, with `part`, in the part of the form with that name. */
const asset = z
  .strictObject({
    type: z.literal('image').nullish(),
    format: z.enum(['png', 'jpg', 'jpeg']).nullish(),
    data_base64: mediaUrl.nullish(),
    part: z.string().min(1).nullish(),
  })
  .superRefine(({ data_base64: data, part }, context) => {
    if ((data ?? part ?? null) === null) {
      context.addIssue({ code: 'custom', path: ['data_base64'], message: 'expected data_base64 or part' })
    }
  })
  .register(requestSchemas, { id: 'SystemOneAsset' })

interface HeldJson {
  readonly json: string
}

function heldJson(json: string): HeldJson {
  return { json }
}

function sized<Value extends z.ZodType>(value: Value, most: number, noun: string, key = z.string().min(1)) {
  return clientMap(value, {
    key,
    sizeProblem: (size) => (size === 0 || size > most ? `expected 1 to ${most} ${noun}` : null),
  })
}

/** Body of `POST /v1/systemone`. Unknown keys are rejected. */
export const systemOneRequest = requests.strictObject('SystemOneRequest', {
  model: z.string(),
  state: content,
  questions: sized(question, MOST_QUESTIONS, 'questions').register(requestSchemas, { id: 'NamedQuestions' }),
  assets: sized(asset, MOST_ASSETS, 'assets', placeholder).register(requestSchemas, { id: 'NamedAssets' }).nullish(),
})

/** The request in a form whose other parts are the images that assets name. */
export const systemOneForm = z
  .looseObject({ request: systemOneRequest })
  .register(requestSchemas, { id: 'SystemOneForm' })

export const systemOneBody = bodyFormat(import.meta.url, 'systemOneRequest', systemOneRequest)

export type SystemOneRequestBody = z.output<typeof systemOneRequest>
export type SystemOneContentBody = z.output<typeof content>
export type SystemOneQuestionBody = z.output<typeof question>

const share = z.number().min(0).max(1)
const shares = z.record(z.string(), share).register(responseSchemas, { id: 'NamedShares' })
const noulAnswer = responses.object('NoulAnswer', { type: z.literal('noul'), noul: share })
const choiceAnswer = responses.object('NamedChoiceAnswer', {
  type: z.literal('choice'),
  choice: z.string(),
  confidence: share,
  probabilities: shares,
})
const scoreAnswer = responses.object('RubricAnswer', {
  type: z.literal('score'),
  score: z.number(),
  confidence: share,
  legend: z.record(z.string(), shownContent).register(responseSchemas, { id: 'RubricLegend' }),
  probabilities: shares,
})
const edges = responses.object('LocationEdges', { top: share, bottom: share, left: share, right: share })
const boxAnswer = responses.object('LocationAnswer', {
  type: z.literal('box'),
  box: edges,
  confidence: share.nullable().describe('0 when nothing was found: the box is then the whole image.'),
  x_asset: z
    .string()
    .optional()
    .describe('The asset that the box is in; present if something was found and the state has several images.'),
})
const answer = responses.union('SystemOneAnswer', 'type', [noulAnswer, choiceAnswer, scoreAnswer, boxAnswer])
const usage = responses.object('SystemOneUsage', { input_tokens: z.int().min(0), output_tokens: z.int().min(0) })

/** Response of `POST /v1/systemone`. */
export const systemOneResponse = responses.object('SystemOneResponse', {
  model: z.string(),
  answers: z.record(z.string(), answer).register(responseSchemas, { id: 'NamedAnswers' }),
  usage,
})

const model = responses.object('SystemOneModel', {
  name: z.string(),
  description: z.string(),
  release_date: z.string(),
})

/** Response of `GET /typesafe/v1/models`. */
export const systemOneModels = responses.object('SystemOneModelList', { models: z.array(model) })

const validationError = responses.object('SystemOneValidationError', {
  loc: z.array(z.union([z.string(), z.int()])),
  msg: z.string(),
  type: z.string(),
})

/** Body of errors: a list with status 422, else a sentence. */
export const systemOneError = responses.object('SystemOneError', {
  detail: z.union([z.string(), z.array(validationError)]),
})

export type SystemOneAnswerBody = z.output<typeof answer>
export type SystemOneResponseBody = z.output<typeof systemOneResponse>
export type SystemOneModelsBody = z.output<typeof systemOneModels>
export type SystemOneErrorBody = z.output<typeof systemOneError>
