/**
 * Which rules hold where OpenAI's API and the contract differ: `contract` refuses what the contract refuses; `openai` also
 * takes `tool_choice` `required` and named functions, and `response_format` `json_object`, files have a `status`, usage has
 * `image_tokens`, choices have `logprobs`, and what OpenAI rejects of `logprobs` and `top_logprobs` is rejected.
 */
export const COMPATIBILITIES = ['contract', 'openai'] as const
export type Compatibility = (typeof COMPATIBILITIES)[number]
