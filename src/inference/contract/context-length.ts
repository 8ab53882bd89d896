/**
 * Why a prompt and its completion do not fit the context window, in a sentence; null when they do.
 * @param maxTokens of the completion; null for as many as are left.
 */
export function lengthProblem(promptTokens: number, maxTokens: number | null, contextTokens: number): string | null {
  if (promptTokens >= contextTokens) return promptProblem(promptTokens, contextTokens)
  return promptTokens + (maxTokens ?? 0) > contextTokens
    ? `The prompt of ${promptTokens} tokens leaves no room for ${maxTokens} more: ${contextLimit(contextTokens)}`
    : null
}

/** Why a prompt alone does not fit. @param tokens infinite for one that was not read to its end. */
export function promptProblem(tokens: number, contextTokens: number): string {
  const room = tokens === contextTokens ? ', which leave no room for a reply' : ''
  const size = Number.isFinite(tokens) ? `it has ${tokens} tokens${room}, and ` : ''
  return `The prompt is too long: ${size}${contextLimit(contextTokens)}`
}

/**
 * What such sentences end with. Agents that then shorten a conversation or ask a larger model look for these words, for
 * "prompt is too long", or for the code `context_length_exceeded`.
 */
export function contextLimit(contextTokens: number): string {
  return `this model's maximum context length is ${contextTokens} tokens`
}
