/** How the servers of a text engine are asked to constrain a reply: the values of `engine.constraints`. */
export const CONSTRAINT_MODES = ['none', 'json_schema', 'vllm', 'llama-server'] as const
export type ConstraintMode = (typeof CONSTRAINT_MODES)[number]

/** The forms that each mode guarantees; all others depend on what the model writes by itself. */
export const ENFORCED: Readonly<Record<ConstraintMode, readonly string[]>> = {
  none: [],
  json_schema: ['response_format_json_schema'],
  vllm: ['response_format_json_schema', 'regex'],
  'llama-server': ['response_format_json_schema', 'regex'],
}

/** The template from which a text engine parses messages back. */
export const TEXT_TEMPLATE = 'built-in:chatml'
/** The syntax of tool calls in that template. */
export const TEXT_TOOL_SYNTAX = 'hermes'
/** How thoughts are marked within a completion: the servers send them separately from the reply. */
export const TEXT_THOUGHT = { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n' } as const
