import type { ModelCard } from '../../models/card.ts'
import { gemma } from './gemma.ts'
import { hermes } from './hermes.ts'
import { llama } from './llama.ts'
import { mistral } from './mistral.ts'
import { qwenCoder } from './qwen-coder.ts'
import type { ToolSyntax } from './syntax.ts'

/** By their names in model cards. */
export const TOOL_SYNTAXES: Readonly<Record<NonNullable<ModelCard['toolSyntax']>, ToolSyntax>> = {
  hermes,
  qwen3_coder: qwenCoder,
  llama3: llama,
  mistral,
  gemma4: gemma,
}
