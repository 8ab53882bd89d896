/** What the modes let the user choose of how the model answers. */
export interface AnswerOptions {
  /** Null for the server's default. */
  readonly temperature: number | null
  readonly maxTokens: number | null
  readonly thinks: boolean
}

/** As fields of a request; undefined ones are not sent. */
export function answerFields({ temperature, maxTokens, thinks }: AnswerOptions) {
  return {
    reasoning_effort: thinks ? 'medium' : undefined,
    temperature: temperature ?? undefined,
    max_completion_tokens: maxTokens ?? undefined,
  }
}
