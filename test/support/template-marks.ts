import type { ToolSyntaxName } from '../../src/families/tool-syntax.ts'

/** What reading a template shows of its model. */
export interface ReadMarks {
  /** How it calls tools; null for a template that renders none, or in a way that is not known here. */
  readonly tools: ToolSyntaxName | null
  /** What opens and ends its thoughts, without white space around. Null: the template shows none. */
  readonly thought: readonly [begin: string, end: string] | null
  /** The variable that turns thinking on and off. */
  readonly switchedBy: string | null
  /** Whether a prompt that asks for a thought opens it. */
  readonly opens: boolean
}

const THINK = ['<think>', '</think>'] as const
const ACTION = ['<|START_THINKING|>', '<|END_THINKING|>'] as const
const GEMMA = ['<|channel>thought', '<channel|>'] as const
const APRIEL = ['Here are my reasoning steps:', '[BEGIN FINAL RESPONSE]'] as const

type Row = readonly [
  tools: ReadMarks['tools'],
  thought?: ReadMarks['thought'],
  switchedBy?: string | null,
  opens?: 'opens',
]

/** Read by people in llama.cpp's templates, not computed from them. */
const ROWS: Readonly<Record<string, Row>> = {
  'Apertus-8B-Instruct': ['apertus', ['<|inner_prefix|>', '<|inner_suffix|>'], 'enable_thinking'],
  'Apriel-1.6-15b-Thinker-fixed': ['hunyuan', APRIEL, null, 'opens'],
  'Bielik-11B-v3.0-Instruct': ['hermes', THINK, 'enable_thinking', 'opens'],
  'ByteDance-Seed-OSS': ['seed_oss', ['<seed:think>', '</seed:think>'], 'thinking_budget'],
  Cohere2MoE: ['cohere', ACTION, 'reasoning_effort', 'opens'],
  'CohereForAI-c4ai-command-r-plus-tool_use': [null],
  'CohereForAI-c4ai-command-r7b-12-2024-tool_use': ['cohere', ACTION, 'enable_thinking'],
  'GLM-4.6': ['glm45', THINK, 'enable_thinking'],
  'GLM-4.7-Flash': ['glm47', THINK, 'enable_thinking', 'opens'],
  'GigaChat3-10B-A1.8B': [null],
  'GigaChat3.1-10B-A1.8B': ['gigachat3'],
  'HuggingFaceTB-SmolLM3-3B': [null, THINK, 'enable_thinking'],
  'Kimi-K2-Instruct': ['kimi_k2'],
  'Kimi-K2-Thinking': ['kimi_k2', THINK],
  'Kimi-K3': [null, ['<|open|>think<|sep|>', '<|close|>think<|sep|>'], 'thinking', 'opens'],
  'LFM2-8B-A1B': ['lfm2'],
  'LFM2.5-8B-A1B': ['lfm2'],
  'LFM2.5-Instruct': ['lfm2'],
  'MiMo-VL': ['hermes'],
  'MiniMax-M1': ['minimax_m1'],
  'MiniMax-M2': ['minimax_m2', THINK, null, 'opens'],
  'MiniMax-M3': [null, ['<mm:think>', '</mm:think>'], 'thinking_mode', 'opens'],
  'Mistral-Small-3.2-24B-Instruct-2506': ['mistral'],
  'NVIDIA-Nemotron-3-Nano-30B-A3B-BF16': ['qwen3_coder', THINK, 'enable_thinking', 'opens'],
  'NVIDIA-Nemotron-Nano-v2': ['nemotron', THINK, null, 'opens'],
  'NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use': ['hermes'],
  'NousResearch-Hermes-3-Llama-3.1-8B-tool_use': ['hermes'],
  'Qwen-QwQ-32B': ['hermes', THINK, 'enable_thinking', 'opens'],
  'Qwen-Qwen2.5-7B-Instruct': ['hermes'],
  'Qwen-Qwen3-0.6B': ['hermes', THINK, 'enable_thinking'],
  'Qwen3-Coder': ['qwen3_coder'],
  'Qwen3.5-4B': ['qwen3_coder', THINK, 'enable_thinking', 'opens'],
  'Reka-Edge': ['hermes', THINK, 'enable_thinking', 'opens'],
  'StepFun3.5-Flash': ['qwen3_coder', THINK, null, 'opens'],
  'deepseek-ai-DeepSeek-R1-Distill-Llama-8B': [null, THINK, null, 'opens'],
  'deepseek-ai-DeepSeek-R1-Distill-Qwen-32B': [null, THINK, 'enable_thinking', 'opens'],
  'deepseek-ai-DeepSeek-V3.1': [null, THINK, 'enable_thinking', 'opens'],
  'deepseek-ai-DeepSeek-V3.2': ['deepseek_v32', THINK, 'enable_thinking', 'opens'],
  'deepseek-ai-DeepSeek-V4-Flash-0731': ['deepseek_v4', THINK, 'enable_thinking', 'opens'],
  'deepseek-ai-DeepSeek-V4': ['deepseek_v4', THINK, 'enable_thinking', 'opens'],
  'google-gemma-2-2b-it': [null],
  'google-gemma-4-31B-it-interleaved': ['gemma4', GEMMA, 'enable_thinking'],
  'google-gemma-4-31B-it': ['gemma4', GEMMA, 'enable_thinking'],
  'ibm-granite-granite-3.3-2B-Instruct': ['granite', THINK, 'thinking'],
  'ibm-granite-granite-4.0': ['hermes'],
  'ibm-granite-granite-4.1': ['hermes'],
  'llama-cpp-deepseek-r1': ['deepseek_v3', THINK, null, 'opens'],
  'llama-cpp-rwkv-world': [null, THINK, 'enable_thinking', 'opens'],
  'meetkai-functionary-medium-v3.1': ['functionary'],
  'meetkai-functionary-medium-v3.2': [null],
  'meta-llama-Llama-3.1-8B-Instruct': ['llama3'],
  'meta-llama-Llama-3.2-3B-Instruct': ['llama3'],
  'meta-llama-Llama-3.3-70B-Instruct': ['llama3'],
  'microsoft-Phi-3.5-mini-instruct': [null],
  'mistralai-Ministral-3-14B-Reasoning-2512': ['mistral', ['[THINK]', '[/THINK]']],
  'mistralai-Mistral-Nemo-Instruct-2407': ['mistral'],
  'moonshotai-Kimi-K2': ['kimi_k2'],
  // A thought is a message to itself, which is not read here.
  'muse-glimmer': [null],
  'openai-gpt-oss-120b': ['harmony', ['<|channel|>analysis<|message|>', '<|end|>'], 'reasoning_effort'],
  'openbmb-MiniCPM5-1B': ['minicpm5', THINK, 'enable_thinking', 'opens'],
  'poolside-Laguna-S-2.1': ['glm47', THINK, 'enable_thinking', 'opens'],
  'poolside-Laguna-XS-2.1': ['glm45', THINK, 'enable_thinking', 'opens'],
  'poolside-Laguna-XS.2': ['glm45', THINK, 'enable_thinking', 'opens'],
  'tencent-Hy3': ['hy3', ['<think:opensource>', '</think:opensource>'], 'reasoning_effort', 'opens'],
  'unsloth-Apriel-1.5': ['hunyuan', APRIEL],
  'unsloth-mistral-Devstral-Small-2507': ['mistral'],
  // A thought is a message of its own, which is not read here.
  'upstage-Solar-Open-100B': [null, null, 'reasoning_effort'],
}

/** By file name. The template of firefunction, which needs variables of its own, is left out. */
export const READ_MARKS: ReadonlyMap<string, ReadMarks> = new Map(
  Object.entries(ROWS).map(([name, [tools, thought = null, switchedBy = null, opens]]) => [
    `${name}.jinja`,
    { tools, thought, switchedBy, opens: opens !== undefined },
  ]),
)
