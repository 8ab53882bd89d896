import './requests.ts'
import './responses.ts'
import { json, MODEL_ERRORS, ok, operations, PRIORITY, stream } from '../../../http/wire/describe.ts'

const SHARED = {
  tag: 'ollama',
  /** Requests from this machine need no key. */
  security: [{}, { apiKey: [] }],
  convention: { errors: 'OllamaError' },
} as const
const REPLY = 'The reply in lines as it is generated; with `stream: false`, whole.'
const READ_ERRORS = [401, 403, 429, 503] as const

/** The paths of Ollama's convention, described if the setting is on. Paths that this server rejects are left out. */
export const OLLAMA_PATHS = operations({
  'GET /api/version': {
    ...SHARED,
    id: 'retrieveOllamaVersion',
    summary: 'The version of Ollama whose API this is',
    replies: ok('The version.', json('OllamaVersion')),
    errors: READ_ERRORS,
  },
  'GET /api/tags': {
    ...SHARED,
    id: 'listOllamaModels',
    summary: 'The models that are served, as Ollama’s clients list them',
    replies: ok('The models.', json('OllamaModelList')),
    errors: READ_ERRORS,
  },
  'GET /api/ps': {
    ...SHARED,
    id: 'listRunningOllamaModels',
    summary: 'The models that are loaded',
    replies: ok('The models.', json('OllamaRunningModelList')),
    errors: READ_ERRORS,
  },
  'POST /api/show': {
    ...SHARED,
    id: 'showOllamaModel',
    summary: 'One model',
    body: json('OllamaShowRequest'),
    replies: ok('The model.', json('OllamaShownModel')),
    errors: [400, 401, 403, 404, 408, 413, 415, 429, 503],
  },
  'POST /api/chat': {
    ...SHARED,
    id: 'createOllamaChat',
    summary: 'Reply to a conversation, in Ollama’s shape',
    parameters: [PRIORITY],
    body: json('OllamaChatRequest'),
    replies: ok(REPLY, replyOf('OllamaChatReply')),
    errors: [...MODEL_ERRORS, 404],
  },
  'POST /api/generate': {
    ...SHARED,
    id: 'createOllamaCompletion',
    summary: 'Reply to a prompt, in Ollama’s shape',
    parameters: [PRIORITY],
    body: json('OllamaGenerateRequest'),
    replies: ok(REPLY, replyOf('OllamaGenerateReply')),
    errors: [...MODEL_ERRORS, 404],
  },
  'POST /api/embed': {
    ...SHARED,
    id: 'createOllamaEmbeddings',
    summary: 'Vectors of texts, in Ollama’s shape',
    parameters: [PRIORITY],
    body: json('OllamaEmbedRequest'),
    replies: ok('The vectors.', json('OllamaEmbedReply')),
    errors: [...MODEL_ERRORS, 404],
  },
  'POST /api/embeddings': {
    ...SHARED,
    id: 'createOllamaEmbedding',
    summary: 'The vector of one text, in Ollama’s older shape',
    parameters: [PRIORITY],
    body: json('OllamaEmbeddingRequest'),
    replies: ok('The vector.', json('OllamaEmbeddingReply')),
    errors: [...MODEL_ERRORS, 404],
  },
})

function replyOf(id: string) {
  return { ...stream(id, { errors: 'OllamaError', type: 'application/x-ndjson' }), ...json(id) }
}
