import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import sharp from 'sharp'
import { HubTokenizer } from '../../../src/inference/remote/tokens/hub-tokenizer.ts'

/** The body of `POST /generate`, as far as the server reads it. */
export interface Asked {
  readonly rid: string
  readonly input_ids: readonly number[]
  readonly image_data?: readonly string[] | readonly (readonly string[])[]
  readonly sampling_params: Readonly<Record<string, unknown>> & {
    readonly n: number
    readonly max_new_tokens: number
    readonly stop?: readonly string[]
    readonly stop_token_ids: readonly number[]
    readonly ebnf?: string
    readonly temperature: number
    readonly top_k: number
  }
  readonly return_logprob?: boolean
  readonly top_logprobs_num?: number
  readonly token_ids_logprob?: readonly number[]
  readonly stream: boolean
  readonly cache_salt: string
}

/** What goes wrong with one request. */
export type Fault =
  /** Instead of a stream. */
  | { readonly type: 'status'; readonly status: number; readonly body: unknown }
  /** In the stream, in place of its first line: what Python's `ValueError` becomes there. */
  | { readonly type: 'error'; readonly message: string }
  /** The scheduler gives the request up after this many lines. */
  | { readonly type: 'abort'; readonly lines: number; readonly reason: object }
  /** The stream ends in order after this many lines. */
  | { readonly type: 'end'; readonly lines: number }
  /** The connection breaks after this many lines. */
  | { readonly type: 'cut'; readonly lines: number }
  /** Nothing comes after this many lines. */
  | { readonly type: 'silence'; readonly lines: number }

interface Completion {
  readonly tokens: readonly number[]
  readonly reason: object
}

/** Tokens that SGLang's processor for Qwen takes for one picture, in the text that it decodes. */
const PICTURES = /<\|vision_start\|>(?:<\|image_pad\|>)+<\|vision_end\|>|<image>/g

/**
 * Speaks the wire of SGLang 0.5.23, as its source says: `entrypoints/http_server.py`, `managers/tokenizer_manager.py` and
 * `multimodal/processors/base_processor.py`. What it says is scripted; nothing computes.
 */
export class ScriptedSglang implements AsyncDisposable {
  readonly url: string
  readonly asked: Asked[] = []
  /** For the next requests, one each. */
  readonly faults: Fault[] = []
  /** What the completions of a request say. */
  reply: (asked: Asked, text: string) => readonly string[] = () => ['Hello there!']
  /** `--incremental-streaming-output`. */
  isIncremental = false
  isReady = true
  key: string | null = null
  version = '0.5.23'
  grammarBackend = 'xgrammar'
  seesImages = true
  model = 'lookout-nano'
  contextLength = 8200
  hasMetrics = true
  /** Whether it gives log-probabilities where it is asked for them. */
  rates = true
  /** Streams whose reader has left before their end. */
  abandoned = 0
  readonly #server: Server
  readonly #tokenizer: HubTokenizer
  readonly #naive: Tokenizer
  readonly #pixelsPerToken: number
  /** Prompts that are in its cache, by salt. */
  readonly #cached = new Map<string, (readonly string[])[]>()

  private constructor(server: Server, url: string, model: string, naive: Tokenizer, pixelsPerToken: number) {
    this.#server = server
    this.url = url
    this.#tokenizer = new HubTokenizer(model)
    this.#naive = naive
    this.#pixelsPerToken = pixelsPerToken
  }

  /** @param model the folder with the tokenizer. */
  static async start(model: string): Promise<ScriptedSglang> {
    const json = async (name: string) => JSON.parse(await readFile(join(model, name), 'utf8'))
    const naive = new Tokenizer(await json('tokenizer.json'), await json('tokenizer_config.json'))
    const { patch_size: patch, merge_size: merge } = await json('preprocessor_config.json')
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const scripted = new ScriptedSglang(server, url, model, naive, patch * merge)
    server.on('request', (request, response) => {
      scripted.#answer(request, response).catch((error: Error) => scripted.#json(response, 500, failed(error.message)))
    })
    return scripted
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  /** The text of tokens, as it decodes them: with that of control tokens. */
  textOf(tokens: readonly number[]): string {
    const { bytes, starts, control } = this.#tokenizer.vocabulary
    const names = new Map([...control].map(([text, id]) => [id, text]))
    const pieces = tokens.map((token) => {
      const name = names.get(token)
      return name === undefined ? Buffer.from(bytes.subarray(starts[token]!, starts[token + 1]!)) : Buffer.from(name)
    })
    return Buffer.concat(pieces).toString()
  }

  controlsOf(tokens: readonly number[]): string[] {
    const names = new Map([...this.#tokenizer.vocabulary.control].map(([text, id]) => [id, text]))
    return tokens.flatMap((token) => names.get(token) ?? [])
  }

  /** The tokens of a text, as a tokenizer without switches makes them: control tokens are read in all of it. */
  reread(text: string): number[] {
    return this.#naive.encode(text, { add_special_tokens: false }).ids
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const body = Buffer.concat(pieces).toString()
    const { url: path = '' } = request
    const isOpen = ['/ready', '/health', '/metrics'].includes(path)
    if (!isOpen && this.key !== null && request.headers.authorization !== `Bearer ${this.key}`)
      return this.#json(response, 401, { error: 'Unauthorized' })
    if (path === '/ready') return this.#json(response, this.isReady ? 200 : 503, null)
    if (path === '/v1/models') {
      const served = { id: this.model, object: 'model', root: this.model, max_model_len: this.contextLength }
      return this.#json(response, 200, { object: 'list', data: [served] })
    }
    if (path === '/server_info')
      return this.#json(response, 200, { version: this.version, grammar_backend: this.grammarBackend })
    if (path === '/model_info') return this.#json(response, 200, { has_image_understanding: this.seesImages })
    if (path === '/tokenize') {
      const tokens = this.reread(JSON.parse(body).prompt)
      return this.#json(response, 200, { tokens, count: tokens.length, max_model_len: this.contextLength })
    }
    if (path === '/metrics' && this.hasMetrics) {
      response.writeHead(200).end(METRICS)
      return
    }
    if (path === '/generate') return this.#generate(JSON.parse(body), response)
    this.#json(response, 404, { detail: 'Not Found' })
  }

  async #generate(asked: Asked, response: ServerResponse): Promise<void> {
    this.asked.push(asked)
    const fault = this.faults.shift()
    if (fault?.type === 'status') return this.#json(response, fault.status, fault.body)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const problem = fault?.type === 'error' ? fault.message : this.#problemOf(asked)
    if (problem !== null) {
      // It has answered 200 by then.
      const error = { message: problem, type: 'invalid_request_error', code: 400, retryable: false }
      response.end(`data: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`)
      return
    }
    response.once('close', () => {
      if (!response.writableFinished) this.abandoned++
    })
    const lines = await this.#linesOf(asked)
    const shown = fault?.type === undefined || fault.type === 'error' ? lines : lines.slice(0, fault.lines)
    for (const line of shown) {
      response.write(`data: ${JSON.stringify(line)}\n\n`)
      await new Promise(setImmediate)
    }
    if (fault?.type === 'silence') return
    if (fault?.type === 'cut') {
      setImmediate(() => response.destroy())
      return
    }
    if (fault?.type === 'abort') {
      const aborted = { text: '', output_ids: [], meta_info: { id: asked.rid, finish_reason: fault.reason } }
      response.write(`data: ${JSON.stringify(aborted)}\n\n`)
    }
    response.end(fault?.type === 'end' ? '' : 'data: [DONE]\n\n')
  }

  /** What it refuses, in its words. */
  #problemOf({ input_ids: ids, sampling_params: params, image_data: data }: Asked): string | null {
    if (ids.length === 0) return 'input_ids cannot be empty.'
    const unknown = Object.keys(params).filter((name) => !PARAMETERS.has(name))
    if (unknown.length > 0) return `Unexpected keyword argument '${unknown[0]}'`
    if (params.top_k < 1 && params.top_k !== -1) return `top_k must be -1 (disable) or at least 1, got ${params.top_k}.`
    if (data === undefined) return null
    if (params.n > 1 && (data.length !== 1 || !Array.isArray(data[0])))
      return 'The length of image_data should be equal to the batch size.'
    const found = this.textOf(ids).match(PICTURES) ?? []
    const count = imagesOf({ image_data: data }).length
    if (found.length !== count)
      return `Mismatch: ${found.length} image placeholder(s) in the prompt, and ${count} image(s)`
    return null
  }

  async #linesOf(asked: Asked): Promise<object[]> {
    const { n } = asked.sampling_params
    const images = await Promise.all(imagesOf(asked).map((url) => this.#tokensOf(url)))
    const expanded: string[] = []
    for (const token of asked.input_ids) {
      const image = this.controlsOf([token])[0] === '<|image_pad|>' ? images.shift() : undefined
      expanded.push(...(image ?? [String(token)]))
    }
    const cached = this.#lookUp(asked.cache_salt, expanded)
    const text = this.textOf(asked.input_ids)
    const completions = this.reply(asked, text).map((reply) => this.#completionOf(reply, asked))
    const streams = completions.slice(0, n).map(({ tokens, reason }, index) =>
      Array.from({ length: Math.max(1, tokens.length) }, (_, at) => ({
        text: this.textOf(tokens.slice(this.isIncremental ? at : 0, at + 1)),
        output_ids: tokens.slice(this.isIncremental ? at : 0, at + 1),
        meta_info: {
          id: n === 1 ? asked.rid : `${asked.rid}_${index}`,
          finish_reason: at + 1 >= tokens.length ? reason : null,
          prompt_tokens: expanded.length,
          weight_version: 'default',
          num_retractions: 0,
          reasoning_tokens: 0,
          completion_tokens: Math.min(at + 1, tokens.length),
          ...(asked.return_logprob && this.rates
            ? ratingsOf(tokens.slice(this.isIncremental ? at : 0, at + 1), asked)
            : {}),
          // A prompt with several completions is computed once before them.
          cached_tokens: n === 1 ? cached : expanded.length - 1,
        },
        ...(n === 1 ? {} : { index }),
      })),
    )
    // Completions come in turn.
    const longest = Math.max(...streams.map(({ length }) => length))
    return Array.from({ length: longest }, (_, at) => streams.flatMap((stream) => stream[at] ?? [])).flat()
  }

  #completionOf(reply: string, { sampling_params: params }: Asked): Completion {
    const [end] = params.stop_token_ids
    const all = [...this.#tokenizer.encode([{ text: reply, trusted: false }]), ...(end === undefined ? [] : [end])]
    const stop = params.stop?.[0]
    const stopped = stop === undefined ? -1 : all.findIndex((_, at) => this.textOf(all.slice(0, at + 1)).includes(stop))
    const ended =
      stopped === -1
        ? { tokens: all, reason: { type: 'stop', matched: end } }
        : { tokens: all.slice(0, stopped + 1), reason: { type: 'stop', matched: stop } }
    const most = params.max_new_tokens
    if (ended.tokens.length <= most) return ended
    return { tokens: all.slice(0, most), reason: { type: 'length', length: most } }
  }

  /** A picture as its place in the cache: one entry for each token. */
  async #tokensOf(url: string): Promise<string[]> {
    const png = Buffer.from(url.replace('data:image/png;base64,', ''), 'base64')
    const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true })
    const side = this.#pixelsPerToken
    if (info.channels !== 3 || info.width % side !== 0 || info.height % side !== 0)
      throw new Error(`The picture of ${info.width}x${info.height} would be resized`)
    const pixels = data.toString('base64', 0, 300)
    return Array.from({ length: (info.width * info.height) / side ** 2 }, () => pixels)
  }

  /** How many tokens of a prompt are in the cache, where it is from now on. */
  #lookUp(salt: string, prompt: readonly string[]): number {
    const known = this.#cached.get(salt) ?? []
    const lengths = known.map((other) => {
      const differs = prompt.findIndex((token, index) => token !== other[index])
      return differs === -1 ? prompt.length : differs
    })
    this.#cached.set(salt, [...known, prompt])
    return Math.min(prompt.length - 1, Math.max(0, ...lengths))
  }

  #json(response: ServerResponse, status: number, body: unknown): void {
    response.writeHead(status, { 'content-type': 'application/json' }).end(body === null ? '' : JSON.stringify(body))
  }
}

/** Each token is as likely as all others together; beside it, there are a token that cannot come next and token 1. */
function ratingsOf(tokens: readonly number[], { top_logprobs_num: most = 0, token_ids_logprob: asked }: Asked): object {
  const half = Math.log(1 / 2)
  const chosen = tokens.map((token) => [half, token, null])
  if (asked !== undefined) {
    const rated = asked.map((token) => [Math.log(oddsOf(token)), token, null])
    return { output_token_logprobs: chosen, output_token_ids_logprobs: tokens.map(() => rated) }
  }
  if (most === 0) return { output_token_logprobs: chosen }
  const others = [
    [Math.log(1 / 4), 1, null],
    [null, 2, null],
  ]
  return { output_token_logprobs: chosen, output_top_logprobs: chosen.map((one) => [one, ...others].slice(0, most)) }
}

/** How likely a token is, wherever it is asked for. */
export function oddsOf(token: number): number {
  return 1 / (4 + (token % 5))
}

export function imagesOf({ image_data: data }: Pick<Asked, 'image_data'>): readonly string[] {
  return (data ?? []).flat()
}

const PARAMETERS = new Set([
  ...['n', 'max_new_tokens', 'stop', 'stop_token_ids', 'ebnf'],
  ...['temperature', 'top_p', 'top_k', 'min_p', 'frequency_penalty', 'presence_penalty', 'repetition_penalty'],
  ...['sampling_seed', 'ignore_eos'],
])

function failed(message: string): object {
  return { object: 'error', message, type: 'InternalServerError', param: null, code: 500 }
}

const LABELS = 'model_name="lookout-nano",engine_type="unified",tp_rank="0",pp_rank="0"'
const METRICS = `# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{${LABELS}} 3.0
sglang:num_queue_reqs{${LABELS}} 2.0
sglang:token_usage{${LABELS}} 0.25
sglang:max_total_num_tokens{${LABELS}} 40000.0
sglang:num_retracted_requests_total{${LABELS}} 1.0
sglang:cached_tokens_total{${LABELS},cache_source="total"} 500.0
`
