import { z } from 'zod'
import { ServerFailure } from '../wire/wire.ts'
import type { ServerClient } from './server-client.ts'

/** What a card says about the model of its servers. */
export interface ExpectedModel {
  /** The model's name on the servers. */
  readonly model: string
  /** Minimum context of a server, in tokens. */
  readonly contextTokens: number
  /** A text, and its tokens by our tokenizer. A server with other tokens has another tokenizer. */
  readonly sample: { readonly text: string; readonly tokens: readonly number[] }
}

export interface ContextRule {
  /** The server's option for the maximum length of a sequence. */
  readonly flag: string
  /** Tokens of a sequence that the server reserves. */
  readonly reserved: number
}

/** @throws ServerFailure `wrong` for a server with another model, less context, or another tokenizer. */
export async function checkServedModel(
  client: ServerClient,
  url: string,
  expected: ExpectedModel,
  rule: ContextRule,
  signal: AbortSignal,
): Promise<void> {
  const { model, sample } = expected
  checkListed(await client.ask(modelsSchema, url, ['GET', '/v1/models'], null, signal), expected, rule)
  const asked = { model, prompt: sample.text, add_special_tokens: false }
  const { tokens } = await client.ask(tokensSchema, url, ['POST', '/tokenize'], asked, signal)
  if (tokens.join() !== sample.tokens.join()) {
    throw new ServerFailure('wrong', "its tokenizer is not the one in the card's engine.tokenizer")
  }
}

/**
 * @param rule null if the server's option is unknown.
 * @throws ServerFailure `wrong` for a list without the model, or with less context.
 */
export function checkListed(
  { data }: z.infer<typeof modelsSchema>,
  { model, contextTokens }: Pick<ExpectedModel, 'model' | 'contextTokens'>,
  rule: ContextRule | null = null,
): void {
  const served = data.find(({ id }) => id === model)
  if (served === undefined) {
    const names = data.map(({ id }) => `'${id}'`).join(', ')
    throw new ServerFailure('wrong', `it serves ${names || 'no model'}, not '${model}'`)
  }
  if (served.max_model_len != null) checkContext(served.max_model_len, contextTokens, rule)
}

function checkContext(served: number, wanted: number, rule: ContextRule | null): void {
  const { flag, reserved } = rule ?? { flag: null, reserved: 0 }
  if (served - reserved >= wanted) return
  const kept = reserved === 0 ? '' : ` and keeps ${reserved} of them to itself`
  const limits = `it takes ${served} tokens${flag === null ? '' : ` (${flag})`}${kept}`
  throw new ServerFailure('wrong', `${limits}, and the card's engine.contextTokens are ${wanted}`)
}

/** The answer to `GET /v1/models`. */
export const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string(), max_model_len: z.number().nullish() })),
})
const tokensSchema = z.object({ tokens: z.array(z.number()) })
