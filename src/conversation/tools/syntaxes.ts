import type { ToolSyntaxName } from '../../families/index.ts'
import { gemma } from './gemma.ts'
import { hermes } from './hermes.ts'
import { llama } from './llama.ts'
import { mistral } from './mistral.ts'
import { qwenCoder } from './qwen-coder.ts'
import type { ToolSyntax } from './syntax.ts'

/** By the names that families and model cards know them by. */
export const TOOL_SYNTAXES: Readonly<Record<ToolSyntaxName, ToolSyntax>> = {
  hermes,
  qwen3_coder: qwenCoder,
  llama3: llama,
  mistral,
  gemma4: gemma,
}
