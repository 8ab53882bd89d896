/** What is wrong with an input, in words that are fit for the client: they speak of the input only. */
export class Refusal extends Error {
  readonly code: RefusalCode | null

  constructor(message: string, code: RefusalCode | null = null) {
    super(message)
    this.code = code
  }
}

export type RefusalCode = 'audio_token_limit_exceeded'
