import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import { MODEL, type Vllm } from './server.ts'

/** The answer of `POST /inference/v1/generate`, as far as tests read it. */
export interface GenerateAnswer {
  readonly choices: readonly {
    readonly text: string
    readonly token_ids: readonly number[]
    readonly finish_reason: string
    readonly logprobs: { readonly content: readonly { readonly logprob: number }[] } | null
  }[]
  readonly prompt_token_ids: readonly number[]
  readonly usage: { readonly prompt_tokens: number; readonly prompt_tokens_details: { readonly cached_tokens: number } }
}

/** Reads the tokenizer of an exported model. */
export async function readTokenizer(model: string): Promise<Tokenizer> {
  const json = async (name: string) => JSON.parse(await readFile(join(model, name), 'utf8'))
  return new Tokenizer(await json('tokenizer.json'), await json('tokenizer_config.json'))
}

/** Control tokens in the text are read as such. */
export function encode(tokenizer: Tokenizer, text: string): number[] {
  return tokenizer.encode(text, { add_special_tokens: false }).ids
}

/** A user's turn about one image, up to the beginning of the reply. */
export function imageTurn(question: string): string {
  return `<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>${question}<|im_end|>\n<|im_start|>assistant\n`
}

/** Sends token ids, with an image for each image token among them. */
export async function generate(
  { url }: Pick<Vllm, 'url'>,
  tokens: readonly number[],
  pngs: readonly Buffer[],
  sampling: object,
): Promise<Response> {
  return fetch(`${url}/inference/v1/generate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      token_ids: tokens,
      content_parts: pngs.map((png) => ({
        type: 'image_url',
        url: `data:image/png;base64,${png.toString('base64')}`,
        uuid: createHash('sha256').update(png).digest('hex'),
      })),
      sampling_params: { temperature: 0, max_tokens: 512, skip_special_tokens: false, ...sampling },
      output_mode: 'text',
      return_token_ids: true,
    }),
  })
}
