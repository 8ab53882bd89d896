import { Agent } from 'undici'
import type { BenchServer } from './server.ts'

/** A message in the format of both servers. */
export interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string | readonly ContentPart[]
}

export type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }

export interface ChatResult {
  readonly text: string
  /** Time from the request to the first text. */
  readonly firstMs: number
  readonly totalMs: number
  readonly promptTokens: number
  /** Prompt tokens from the cache, as far as the server reports them. */
  readonly cachedTokens: number
  readonly completionTokens: number
}

/** Tokens per second after the first. */
export function decodingSpeed({ firstMs, totalMs, completionTokens }: ChatResult): number {
  return (1000 * (completionTokens - 1)) / (totalMs - firstMs)
}

interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
}

interface Chunk {
  readonly choices?: readonly { readonly delta: { readonly content?: string | null } }[]
  readonly usage?: Usage | null
}

/**
 * Runs a greedy, streamed chat, with the same request and the same reader for both servers.
 * @param fields further ones.
 * @param arrived called with each text.
 */
export async function chat(
  server: BenchServer,
  messages: readonly Message[],
  maxTokens: number,
  fields: object = {},
  arrived: (text: string) => void = () => {},
): Promise<ChatResult> {
  const started = performance.now()
  const response = await post(server, '/v1/chat/completions', {
    model: server.model,
    messages,
    max_tokens: maxTokens,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    ...fields,
  })
  let firstMs = 0
  let text = ''
  let usage: Usage | null = null
  let rest = ''
  const decoder = new TextDecoder()
  reading: for await (const bytes of response.body!) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      // The stream ends here by the contract. What the server then does with its connection is not timed.
      if (line.startsWith('data: [DONE]')) break reading
      if (!line.startsWith('data: {')) continue
      const chunk = JSON.parse(line.slice(6)) as Chunk
      usage = chunk.usage ?? usage
      const content = chunk.choices?.[0]?.delta.content
      if (!content) continue
      if (text === '') firstMs = performance.now() - started
      text += content
      arrived(content)
    }
  }
  const totalMs = performance.now() - started
  if (usage === null) throw new Error(`${server.name} told no usage.`)
  return {
    text,
    firstMs: text === '' ? totalMs : firstMs,
    totalMs,
    promptTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    completionTokens: usage.completion_tokens,
  }
}

/** What a call, or several together, took and cost. */
export interface CallResult {
  readonly totalMs: number
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly completionTokens: number
}

/** Greedy chats that are all sent at once and answered whole. The time is that of the last answer. */
export async function chatsAtOnce(
  server: BenchServer,
  conversations: readonly (readonly Message[])[],
  maxTokens: number,
): Promise<CallResult> {
  const started = performance.now()
  const usages = await Promise.all(
    conversations.map(async (messages) => {
      const body = { model: server.model, messages, max_tokens: maxTokens, temperature: 0 }
      const response = await post(server, '/v1/chat/completions', body)
      return ((await response.json()) as { usage: Usage }).usage
    }),
  )
  const totalMs = performance.now() - started
  const sum = (of: (usage: Usage) => number) => usages.reduce((total, usage) => total + of(usage), 0)
  return {
    totalMs,
    promptTokens: sum((usage) => usage.prompt_tokens),
    cachedTokens: sum((usage) => usage.prompt_tokens_details?.cached_tokens ?? 0),
    completionTokens: sum((usage) => usage.completion_tokens),
  }
}

/** Lookout's own call for many prompts over one context. */
export async function multilook(
  server: BenchServer,
  context: readonly Message[],
  prompts: readonly string[],
  maxTokens: number,
): Promise<CallResult> {
  const started = performance.now()
  const response = await post(server, '/v1/chat/completions/multilook', {
    model: server.model,
    context,
    prompts,
    max_completion_tokens: maxTokens,
  })
  const { usage, results } = (await response.json()) as { usage: Usage; results: { error?: { message: string } }[] }
  const totalMs = performance.now() - started
  const error = results.find((result) => result.error)?.error
  if (error) throw new Error(`A prompt failed: ${error.message}`)
  return {
    totalMs,
    promptTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    completionTokens: usage.completion_tokens,
  }
}

/** Without limits: on a few cores, a large model needs many minutes for the pictures of all clients. */
const patient = new Agent({ headersTimeout: 0, bodyTimeout: 0 })

export async function post(server: BenchServer, path: string, body: unknown): Promise<Response> {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    dispatcher: patient,
  } as RequestInit)
  if (!response.ok) throw new Error(`${server.name} answered ${response.status}: ${await response.text()}`)
  return response
}
