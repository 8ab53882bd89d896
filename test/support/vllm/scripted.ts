import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json as jsonFrom } from 'node:stream/consumers'
import sharp from 'sharp'
import { HubTokenizer } from '../../../src/inference/remote/tokens/hub-tokenizer.ts'

/** The body of `POST /inference/v1/generate`, as far as it is looked at. */
export interface AskedOfVllm {
  readonly token_ids: readonly number[]
  readonly stream?: boolean
  readonly content_parts?: readonly { readonly type: string; readonly url: string | null; readonly uuid: string }[]
}

/** Speaks vLLM's wire for a model of which there is no more than a tokenizer. Every reply is `Hello!`. */
export class ScriptedVllm implements AsyncDisposable {
  readonly url: string
  readonly asked: AskedOfVllm[] = []
  /** Sizes of the images whose pixels came, in their order. */
  readonly sizes: { readonly width: number; readonly height: number }[] = []
  /** Tokens of the prompt as the server counts them. */
  countTokens: (asked: AskedOfVllm) => number = ({ token_ids }) => token_ids.length
  readonly #server: Server
  readonly #tokenizer: HubTokenizer
  readonly #model: string

  private constructor(server: Server, url: string, folder: string, model: string) {
    this.#server = server
    this.url = url
    this.#tokenizer = new HubTokenizer(folder)
    this.#model = model
  }

  /** @param folder with the tokenizer. @param model its name on the server. */
  static async start(folder: string, model: string): Promise<ScriptedVllm> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const scripted = new ScriptedVllm(server, url, folder, model)
    server.on('request', (request, response) => {
      scripted.#answer(request, response).catch((error: Error) => response.writeHead(500).end(error.message))
    })
    return scripted
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  tokensOf(text: string, trusted = true): number[] {
    return Array.from(this.#tokenizer.encode([{ text, trusted }]))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = request.method === 'POST' ? await jsonFrom(request) : null
    const reply = (answer: unknown) => response.writeHead(200).end(JSON.stringify(answer))
    switch (request.url) {
      case '/health':
      case '/metrics':
        return void response.writeHead(200).end('')
      case '/v1/models':
        return void reply({ data: [{ id: this.#model, max_model_len: 32768 }] })
      case '/tokenize':
        return void reply({ tokens: this.tokensOf((body as { prompt: string }).prompt, false) })
      case '/inference/v1/generate':
        return this.#generate(body as AskedOfVllm, response)
      default:
        return void response.writeHead(404).end()
    }
  }

  async #generate(asked: AskedOfVllm, response: ServerResponse): Promise<void> {
    // How Lookout finds out whether the server takes tokens.
    if (asked.stream !== true) return void response.writeHead(200).end('{}')
    this.asked.push(asked)
    for (const { url } of asked.content_parts ?? []) {
      if (url === null) continue
      const { width, height } = await sharp(Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')).metadata()
      this.sizes.push({ width, height })
    }
    const choice = { index: 0, token_ids: this.tokensOf('Hello!'), finish_reason: 'stop' }
    const usage = { prompt_tokens: this.countTokens(asked), completion_tokens: choice.token_ids.length }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const chunk of [{ choices: [choice] }, { choices: [], usage }])
      response.write(`data: ${JSON.stringify(chunk)}\n\n`)
    response.end('data: [DONE]\n\n')
  }
}
