/**
 * The families' syntaxes for tool calls, by name, with the marks that some vocabularies have as control tokens: the
 * engine must be told to print those. `conversation/tools/` writes and parses each of them.
 */
export const TOOL_MARKS = {
  hermes: ['<tool_call>', '</tool_call>'],
  qwen3_coder: ['<tool_call>', '</tool_call>'],
  llama3: [],
  mistral: ['[TOOL_CALLS]', '[ARGS]'],
  gemma4: ['<|tool_call>', '<tool_call|>', '<|"|>'],
  glm45: keyed(''),
  glm47: keyed(''),
  lfm2: ['<|tool_call_start|>', '<|tool_call_end|>'],
  harmony: ['<|start|>', '<|channel|>', '<|constrain|>', '<|message|>', '<|end|>'],
  kimi_k2: [
    ...['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>', '<|tool_call_begin|>'],
    ...['<|tool_call_argument_begin|>', '<|tool_call_end|>'],
  ],
  deepseek_v3: deepSeek(),
  deepseek_v31: deepSeek(),
  deepseek_v32: ['｜DSML｜'],
  deepseek_v4: ['｜DSML｜'],
  minimax_m1: ['<tool_calls>', '</tool_calls>'],
  minimax_m2: ['<minimax:tool_call>', '</minimax:tool_call>'],
  seed_oss: ['<seed:tool_call>', '</seed:tool_call>'],
  hunyuan: ['<tool_calls>', '</tool_calls>'],
  hy3: ['tool_calls', 'tool_sep']
    .flatMap((name) => [`<${name}:opensource>`, `</${name}:opensource>`])
    .concat(keyed(':opensource')),
  minicpm5: ['<function', '</function>', '<param', '</param>'],
  cohere: ['<|START_ACTION|>', '<|END_ACTION|>'],
  granite: ['<|tool_call|>'],
  nemotron: ['<TOOLCALL>', '</TOOLCALL>'],
  apertus: ['<|tools_prefix|>', '<|tools_suffix|>'],
  functools: [],
  functionary: [],
  gigachat3: ['<|function_call|>'],
  olmo3: ['<function_calls>', '</function_calls>'],
} as const satisfies Readonly<Record<string, readonly string[]>>

export type ToolSyntaxName = keyof typeof TOOL_MARKS
export const TOOL_SYNTAX_NAMES = Object.keys(TOOL_MARKS) as [ToolSyntaxName, ...ToolSyntaxName[]]

function keyed(suffix: string): string[] {
  return ['tool_call', 'arg_key', 'arg_value'].flatMap((name) => [`<${name}${suffix}>`, `</${name}${suffix}>`])
}

function deepSeek(): string[] {
  return ['calls▁begin', 'calls▁end', 'call▁begin', 'call▁end', 'sep'].map((name) => `<｜tool▁${name}｜>`)
}
