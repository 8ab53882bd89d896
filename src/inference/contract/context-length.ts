/**
 * Why a prompt and its completion exceed the context window, in a sentence; null if they fit.
 * @param maxTokens of the completion; null for all that are left.
 */
export function lengthProblem(promptTokens: number, maxTokens: number | null, contextTokens: number): string | null {
  if (promptTokens >= contextTokens) return promptProblem(promptTokens, contextTokens)
  return promptTokens + (maxTokens ?? 0) > contextTokens
    ? `The prompt of ${promptTokens} tokens leaves no room for ${maxTokens} more: ${contextLimit(contextTokens)}`
    : null
}

/**
 * Why a prompt alone exceeds the context window.
 * @param tokens infinite for a prompt that was not read to its end.
 */
export function promptProblem(tokens: number, contextTokens: number): string {
  const room = tokens === contextTokens ? ', which leave no room for a reply' : ''
  const size = Number.isFinite(tokens) ? `it has ${tokens} tokens${room}, and ` : ''
  return `The prompt is too long: ${size}${contextLimit(contextTokens)}`
}

/**
 * The end of such a sentence. Agents that respond by shortening a conversation or choosing a larger model look for this
 * wording, for "prompt is too long", or for the code `context_length_exceeded`.
 */
export function contextLimit(contextTokens: number): string {
  return `this model's maximum context length is ${contextTokens} tokens`
}
