/**
 * Why a prompt and its completion do not fit the context window, in a sentence; null when they do.
 * @param maxTokens of the completion; null for as many as are left.
 */
export function lengthProblem(promptTokens: number, maxTokens: number | null, contextTokens: number): string | null {
  if (promptTokens + Math.max(1, maxTokens ?? 1) <= contextTokens) return null
  const asked =
    maxTokens === null
      ? `The prompt has ${promptTokens} tokens`
      : `The prompt has ${promptTokens} tokens and ${maxTokens} were asked for the completion, ${promptTokens + maxTokens} together`
  return `${asked}, ${window(contextTokens)}`
}

/** The same for a prompt that was not read to its end. */
export function endlessProblem(contextTokens: number): string {
  return `The prompt is longer, ${window(contextTokens)}`
}

/** Why a text cannot be embedded, or a pair be rated; null when it can. @param tokens infinite for one that was not read to its end. */
export function inputProblem(tokens: number, contextTokens: number): string | null {
  if (tokens === 0) return 'The input is empty.'
  if (tokens <= contextTokens) return null
  const has = Number.isFinite(tokens) ? `has ${tokens} tokens` : 'is longer'
  return `The input ${has}, but this model takes at most ${contextTokens}.`
}

function window(contextTokens: number): string {
  return `but this model's context window is ${contextTokens} tokens, prompt and completion together.`
}
