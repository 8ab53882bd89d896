import type { ToolSyntaxName } from '../../families/tool-syntax.ts'
import { gemma } from './gemma.ts'
import { harmony } from './harmony.ts'
import * as json from './json-syntaxes.ts'
import * as members from './member-syntaxes.ts'
import { mistral } from './mistral.ts'
import { lfm2, olmo3 } from './python-syntaxes.ts'
import type { ToolSyntax } from './syntax.ts'

/** All syntaxes by the names that families and model cards use. */
export const TOOL_SYNTAXES: Readonly<Record<ToolSyntaxName, ToolSyntax>> = {
  hermes: json.hermes,
  qwen3_coder: members.qwenCoder,
  llama3: json.llama,
  mistral,
  gemma4: gemma,
  glm45: members.glm45,
  glm47: members.glm47,
  lfm2,
  harmony,
  kimi_k2: json.kimi,
  deepseek_v3: json.deepSeekV3,
  deepseek_v31: json.deepSeekV31,
  deepseek_v32: members.deepSeekV32,
  deepseek_v4: members.deepSeekV4,
  minimax_m1: json.miniMaxM1,
  minimax_m2: members.miniMaxM2,
  seed_oss: members.seedOss,
  hunyuan: json.hunyuan,
  hy3: members.hy3,
  minicpm5: members.miniCpm5,
  cohere: json.cohere,
  granite: json.granite,
  nemotron: json.nemotron,
  apertus: json.apertus,
  functools: json.functools,
  functionary: json.functionary,
  gigachat3: json.gigachat,
  olmo3,
}
