/** How the servers of a text engine are asked for a form of the reply: the values of `engine.constraints`. */
export const CONSTRAINT_MODES = ['none', 'json_schema', 'vllm', 'llama-server'] as const
export type ConstraintMode = (typeof CONSTRAINT_MODES)[number]

/** What clients can be promised in each mode; all other forms are a matter of what the model writes by itself. */
export const ENFORCED: Readonly<Record<ConstraintMode, readonly string[]>> = {
  none: [],
  json_schema: ['response_format_json_schema'],
  vllm: ['response_format_json_schema', 'regex'],
  'llama-server': ['response_format_json_schema', 'regex'],
}

/** The template that such an engine reads messages from. */
export const TEXT_TEMPLATE = 'built-in:chatml'
/** How that template has the model write calls. */
export const TEXT_TOOL_SYNTAX = 'hermes'
/** How thoughts are marked within a completion: the servers send them apart from the reply. */
export const TEXT_THOUGHT = { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n' } as const
