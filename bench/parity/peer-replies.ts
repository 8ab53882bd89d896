import sharp from 'sharp'
import type { AudioPart, ImagePart, PromptPart } from '../../src/inference/contract/parts.ts'
import type { BenchServer } from '../support/server.ts'

/** A reply, and what the model thought of the likeliest tokens at each step. */
export interface Reply {
  readonly text: string
  readonly steps: readonly Step[]
}

/** Log probabilities of the likeliest tokens of one step, by token. */
export type Step = ReadonlyMap<number, number>

/** Tokens whose probabilities are compared at each step. */
export const LIKELIEST = 16

/** A LoRA file that a server has loaded. */
export interface PeerAdapter {
  readonly path: string
  readonly scale: number
}

interface Completion {
  readonly content: string
  readonly tokens_evaluated: number
  readonly completion_probabilities: readonly {
    readonly top_logprobs: readonly { readonly id: number; readonly logprob: number }[]
  }[]
}

/**
 * Asks llama-server for a greedy reply to a prompt in the engine's parts.
 * @param scale of its adapter, if it has one.
 */
export async function askPeer(
  server: BenchServer,
  parts: readonly PromptPart[],
  tokens: number,
  scale = 0,
): Promise<Reply> {
  // The server closes connections that were idle while this process computed.
  const headers = {
    authorization: `Bearer ${server.apiKey}`,
    'content-type': 'application/json',
    connection: 'close',
  }
  const { media_marker: marker } = await json<{ media_marker: string }>(await fetch(`${server.url}/props`, { headers }))
  const media = parts.filter((part) => part.type !== 'text')
  const text = parts.map((part) => (part.type === 'text' ? part.text : marker)).join('')
  const files = await Promise.all(media.map(async (part) => (await fileOf(part)).toString('base64')))
  const body = {
    prompt: media.length === 0 ? text : { prompt_string: text, multimodal_data: files },
    n_predict: tokens,
    temperature: 0,
    samplers: ['temperature'],
    n_probs: LIKELIEST,
    cache_prompt: false,
    lora: [{ id: 0, scale }],
  }
  const response = await fetch(`${server.url}/completion`, { method: 'POST', headers, body: JSON.stringify(body) })
  const { content, completion_probabilities: steps } = await json<Completion>(response)
  return {
    text: content,
    steps: steps.map(({ top_logprobs: top }) => new Map(top.map(({ id, logprob }) => [id, logprob] as const))),
  }
}

async function json<T>(response: Response): Promise<T> {
  if (!response.ok) throw new Error(`llama-server answers ${response.status}: ${await response.text()}`)
  return (await response.json()) as T
}

async function fileOf(part: Exclude<PromptPart, { type: 'text' }>): Promise<Buffer> {
  if (part.type === 'image') return png(part)
  if (part.type === 'audio') return wav(part)
  throw new Error('llama-server is not asked about videos.')
}

function png({ image: { width, height, data } }: ImagePart): Promise<Buffer> {
  return sharp(data, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer()
}

/** A WAVE file of 32-bit floats, so that no sample is rounded. */
function wav({ samples }: AudioPart): Buffer {
  const header = Buffer.alloc(44)
  const bytes = samples.byteLength
  header.write('RIFF', 0)
  header.writeUInt32LE(36 + bytes, 4)
  header.write('WAVEfmt ', 8)
  header.writeUInt32LE(16, 16)
  const FLOAT = 3
  header.writeUInt16LE(FLOAT, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(16_000, 24)
  header.writeUInt32LE(64_000, 28)
  header.writeUInt16LE(4, 32)
  header.writeUInt16LE(32, 34)
  header.write('data', 36)
  header.writeUInt32LE(bytes, 40)
  return Buffer.concat([header, Buffer.from(samples.buffer, samples.byteOffset, bytes)])
}
