/** How a family can write tool calls, by name. `conversation/tools/` knows how each of them is written and read. */
export const TOOL_SYNTAX_NAMES = ['hermes', 'qwen3_coder', 'llama3', 'mistral', 'gemma4'] as const
export type ToolSyntaxName = (typeof TOOL_SYNTAX_NAMES)[number]
