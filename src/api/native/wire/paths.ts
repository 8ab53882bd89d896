import './detect.ts'
import './model-catalogue.ts'
import './model-pull.ts'
import './multilook-input-tokens.ts'
import './multilook-request.ts'
import './multilook-response.ts'
import { inPath, json, MODEL_ERRORS, ok, operations, PRIORITY, stream } from '../../http/wire/describe.ts'

const MODEL_ID = inPath('model_id', 'The id under which the model is listed.')

/** Lookout's own paths: multilook, detect, and fetching and examining models. */
export const NATIVE_PATHS = operations({
  'POST /v1/chat/completions/multilook': {
    id: 'createMultilook',
    tag: 'multilook',
    summary: 'Answer many independent prompts over one shared context',
    parameters: [PRIORITY],
    body: json('MultilookRequest'),
    replies: ok(
      'One result per prompt, in request order; at least one has completions. An extension: a client that ' +
        'accepts `text/event-stream` gets the pieces of all completions as they are generated, each result as soon ' +
        'as its prompt is finished, and the usage, followed by `data: [DONE]`.',
      {
        ...json('MultilookCompletion'),
        ...stream('MultilookEvent'),
      },
    ),
    errors: MODEL_ERRORS,
  },
  'POST /v1/chat/completions/multilook/input_tokens': {
    id: 'countMultilookInputTokens',
    tag: 'multilook',
    summary: 'Count the prompt tokens of a multilook without generating it',
    body: json('MultilookRequest'),
    replies: ok('The tokens of the prompts, and of the context that they share.', json('MultilookInputTokens')),
    errors: MODEL_ERRORS,
  },
  'POST /v1/detect': {
    id: 'detect',
    tag: 'detect',
    summary: 'Detect objects in an image',
    parameters: [PRIORITY],
    body: json('DetectRequest'),
    replies: ok('The objects, each with a box or a point in pixels of the upright image.', json('Detections')),
    errors: MODEL_ERRORS,
  },
  'POST /v1/detect/input_tokens': {
    id: 'countDetectInputTokens',
    tag: 'detect',
    summary: 'Count the prompt tokens of a detection, and its tiles, without searching',
    body: json('DetectRequest'),
    replies: ok('The tokens of all searches, and the most that second looks may add.', json('DetectInputTokens')),
    errors: MODEL_ERRORS,
  },
  'GET /v1/models/catalogue': {
    id: 'listCatalogue',
    tag: 'models',
    summary: 'Models that can be pulled by a short name, and how they would run on this server',
    replies: ok('The models that fit, best first, followed by those that are too large.', json('ModelCatalogue')),
    errors: [401, 429, 500, 503],
  },
  'POST /v1/models/pull': {
    id: 'pullModel',
    tag: 'models',
    summary: 'Fetch a model from the hub and serve it; needs a key of scope `admin`',
    body: json('ModelPullRequest'),
    replies: ok('Events of the pull; `done` is the last, followed by `data: [DONE]`.', stream('ModelPullEvent')),
    errors: [400, 401, 403, 408, 409, 413, 415, 429, 500, 503, 507],
  },
  'POST /v1/models/{model_id}/examination': {
    id: 'examineModel',
    tag: 'models',
    summary: 'Examine a pulled model at the lowest priority; needs a key of scope `admin`',
    parameters: [MODEL_ID],
    replies: ok('The examination, which has not started.', json('ModelExamination')),
    errors: [400, 401, 403, 404, 429, 503],
  },
  'DELETE /v1/models/{model_id}/examination': {
    id: 'skipExamination',
    tag: 'models',
    summary: 'End the examination of a model; needs a key of scope `admin`',
    parameters: [MODEL_ID],
    replies: ok('The findings so far.', json('ModelExamination')),
    errors: [400, 401, 403, 404, 429, 503],
  },
})
