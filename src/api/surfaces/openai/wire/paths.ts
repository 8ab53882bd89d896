import './chat-request.ts'
import './chat-response.ts'
import './completion.ts'
import './decision-request.ts'
import './decision-response.ts'
import './embedding-request.ts'
import './embedding-response.ts'
import './input-tokens.ts'
import './transcription.ts'
import {
  json,
  MODEL_ERRORS,
  type Operation,
  ok,
  operations,
  PRIORITY,
  ref,
  stream,
} from '../../../http/wire/describe.ts'

/** @param written describes the reply. */
function ofSpeech(id: string, summary: string, written: string): Operation {
  return {
    id,
    tag: 'chat',
    summary,
    parameters: [PRIORITY],
    body: { 'multipart/form-data': { schema: ref('TranscriptionRequest') } },
    replies: ok(`The ${written}; with \`stream\`, its pieces as they are generated, followed by all of it.`, {
      ...json('Transcription'),
      'text/plain': { schema: { type: 'string' } },
      ...stream('TranscriptionEvent'),
    }),
    errors: MODEL_ERRORS,
  }
}

export const CHAT_PATHS = operations({
  'POST /v1/chat/completions': {
    id: 'createChatCompletion',
    tag: 'chat',
    summary: 'Reply to a conversation',
    parameters: [PRIORITY],
    body: json('ChatCompletionRequest'),
    replies: ok('The reply; with `stream`, its chunks as they are generated, followed by `data: [DONE]`.', {
      ...json('ChatCompletion'),
      ...stream('ChatCompletionChunk'),
    }),
    errors: MODEL_ERRORS,
  },
  'POST /v1/chat/completions/input_tokens': {
    id: 'countChatInputTokens',
    tag: 'chat',
    summary: 'Count the prompt tokens of a chat completion without generating it',
    body: json('ChatCompletionRequest'),
    replies: ok('The tokens of the prompt.', json('InputTokens')),
    errors: MODEL_ERRORS,
  },
  'POST /v1/completions': {
    id: 'createCompletion',
    tag: 'chat',
    summary: 'Continue a text, without a chat template',
    parameters: [PRIORITY],
    body: json('CompletionRequest'),
    replies: ok('The completions; with `stream`, their pieces as they are generated, followed by `data: [DONE]`.', {
      ...json('Completion'),
      ...stream('Completion'),
    }),
    errors: MODEL_ERRORS,
  },
  'POST /v1/audio/transcriptions': ofSpeech('createTranscription', 'Transcribe a recording', 'transcript'),
  'POST /v1/audio/translations': ofSpeech(
    'createTranslation',
    'Translate a recording into English text',
    'translation',
  ),
  'POST /v1/decisions': {
    id: 'createDecision',
    tag: 'decisions',
    summary: 'Answer typed questions about one input, with probabilities',
    parameters: [PRIORITY],
    body: json('DecisionRequest'),
    replies: ok('The answers, in the order of the questions.', json('Decision')),
    errors: MODEL_ERRORS,
  },
  'POST /v1/embeddings': {
    id: 'createEmbedding',
    tag: 'embeddings',
    summary: 'Make a vector of each text',
    parameters: [PRIORITY],
    body: json('EmbeddingRequest'),
    replies: ok('The vectors, in the order of the inputs, each of length 1.', json('EmbeddingList')),
    errors: MODEL_ERRORS,
  },
  'POST /v1/rerank': rerankOf('createRerank', 'Rate documents by how well they answer a query'),
  'POST /v2/rerank': rerankOf('createRerankV2', 'The same, where Cohere’s clients ask'),
  'POST /rerank': rerankOf(
    'createRerankAtRoot',
    'The same, where LiteLLM and clients of text-embeddings-inference ask',
  ),
})

function rerankOf(id: string, summary: string): Operation {
  return {
    id,
    tag: 'embeddings',
    summary,
    parameters: [PRIORITY],
    body: json('RerankRequest'),
    replies: ok('The documents, the best first.', json('Rerank', 'RatedTexts')),
    errors: MODEL_ERRORS,
  }
}
