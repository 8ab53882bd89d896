import type { Readable } from 'node:stream'
import type { EmbeddingRequest } from '../../../conversation/request/embedding-request.ts'
import type { ApiCall } from '../../http/api-call.ts'
import { admit, type Serving } from '../admission.ts'
import { longList } from '../long-list.ts'
import { findModel } from './models.ts'
import { nanoseconds } from './reply-lines.ts'
import { embedBody, embeddingBody } from './wire/requests.ts'

interface Asked {
  readonly model: string
  readonly texts: EmbeddingRequest['inputs']
  readonly dimensions?: number | null | undefined
  readonly truncate?: boolean | null | undefined
}

const NONE = { vectors: [], promptTokens: 0, ms: 0 }

/** `POST /api/embed`. */
export async function embed(call: ApiCall, serving: Serving): Promise<Readable | object> {
  const { input, ...asked } = (await serving.bodies.read(call, embedBody)).value
  const list = typeof input === 'string' ? [input].filter((text) => text !== '') : (input ?? [])
  const param = (index: number) => (typeof input === 'string' ? ['input'] : ['input', index])
  const texts = list.map((content, index) => ({ content, param: param(index) }))
  const { vectors, promptTokens, ms } = await vectorsOf(call, serving, { ...asked, texts })
  call.setHeader('content-type', 'application/json; charset=utf-8')
  const times = { total_duration: nanoseconds(ms), load_duration: 0 }
  const rest = { model: asked.model, ...times, prompt_eval_count: promptTokens }
  return longList('embeddings', vectors, (vector) => Array.from(vector), rest)
}

/** `POST /api/embeddings`, for a single text. */
export async function embedOne(call: ApiCall, serving: Serving): Promise<{ readonly embedding: readonly number[] }> {
  const { prompt, ...asked } = (await serving.bodies.read(call, embeddingBody)).value
  const texts = prompt ? [{ content: prompt, param: ['prompt'] }] : []
  const { vectors } = await vectorsOf(call, serving, { ...asked, texts })
  return { embedding: vectors.flatMap((vector) => Array.from(vector)) }
}

/** A request without a text only asks to load the model, which is loaded on demand anyway. */
async function vectorsOf(call: ApiCall, serving: Serving, { model, texts, dimensions, truncate }: Asked) {
  const find = () => findModel(serving.models, model)
  if (texts.length === 0) {
    await find()
    return NONE
  }
  const { metered, caller, signal } = await admit(call, serving, { endpoint: 'ollama', read: async () => null, find })
  const started = performance.now()
  const asked = { inputs: texts, dimensions: dimensions ?? null, truncates: truncate ?? true }
  const reply = await serving.conversations.embed(asked, caller, signal)
  metered.finish('stop')
  return { ...reply, ms: performance.now() - started }
}
