/** How a family can write tool calls, by name. `conversation/tools/` knows how each of them is written and read. */
export const TOOL_SYNTAX_NAMES = ['hermes', 'qwen3_coder', 'llama3', 'mistral', 'gemma4'] as const
export type ToolSyntaxName = (typeof TOOL_SYNTAX_NAMES)[number]

/** The marks of a call, which some vocabularies have as control tokens: the engine must be told to print those. */
export const TOOL_MARKS: Readonly<Record<ToolSyntaxName, readonly string[]>> = {
  hermes: ['<tool_call>', '</tool_call>'],
  qwen3_coder: ['<tool_call>', '</tool_call>'],
  llama3: [],
  mistral: ['[TOOL_CALLS]', '[ARGS]'],
  gemma4: ['<|tool_call>', '<tool_call|>', '<|"|>'],
}
