import { CHATML } from './chatml.ts'

/* Templates for models whose files have none. A format is chosen only if the vocabulary has its marks: a model that
 * does not know a mark is given its characters as text, and goes on to write such marks itself. */

/** For formats without a system role: the system text is put at the beginning of the user's turn after it. */
const JOINED = `{%- set joins = message.role == 'system' and not loop.last and messages[loop.index0 + 1].role == 'user' -%}
{%- set head = messages[loop.index0 - 1].content + '\\n\\n' if message.role == 'user' and not loop.first and messages[loop.index0 - 1].role == 'system' else '' -%}`

const GEMMA = `{{- bos_token -}}
{%- for message in messages -%}
${JOINED}
{%- if not joins -%}{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' + head + message.content + '<end_of_turn>\\n' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}`

const LLAMA3 = `{{- bos_token -}}
{%- for message in messages -%}{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content + '<|eot_id|>' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}`

const MISTRAL = `{{- bos_token -}}
{%- for message in messages -%}
${JOINED}
{%- if message.role == 'assistant' -%}{{- message.content + eos_token -}}
{%- elif not joins -%}{{- '[INST]' + head + message.content + '[/INST]' -}}{%- endif -%}
{%- endfor -%}`

/**
 * A completion prompt without any marks, for models that were not trained on a chat format, and for unknown formats:
 * `User: …`, an empty line, `Assistant:`.
 */
export const PLAIN = `{{- bos_token -}}
{%- for message in messages -%}
{%- if message.role == 'system' -%}{{- message.content + '\\n\\n' -}}
{%- else -%}{{- ('Assistant: ' if message.role == 'assistant' else 'User: ') + message.content + '\\n\\n' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'Assistant:' -}}{%- endif -%}`

/** Prefix of a built-in template's name in `engine.chatTemplate` of a card: `built-in:chatml`. */
export const BUILT_IN_PREFIX = 'built-in:'

/** By their names in cards. */
export const BUILT_IN_TEMPLATES = {
  chatml: CHATML,
  gemma: GEMMA,
  llama3: LLAMA3,
  mistral: MISTRAL,
  plain: PLAIN,
} as const
export type BuiltInName = keyof typeof BUILT_IN_TEMPLATES

/** Formats that llama.cpp knows by the same names. A GGUF file may contain such a name instead of a template. */
export const LLAMA_CPP_FORMATS: ReadonlySet<string> = new Set<BuiltInName>(['chatml', 'gemma', 'llama3'])

/** Tokens that the vocabulary must have; `plain` needs none. */
const MARKS: Readonly<Record<BuiltInName, readonly string[]>> = {
  chatml: ['<|im_start|>', '<|im_end|>'],
  gemma: ['<start_of_turn>', '<end_of_turn>'],
  llama3: ['<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'],
  mistral: ['[INST]', '[/INST]'],
  plain: [],
}

/** The marks by which `builtInFor` chooses. */
export const BUILT_IN_MARKS: readonly string[] = Object.values(MARKS).flat()

/**
 * The template for a model without one.
 * @param has whether the vocabulary has a token.
 */
export function builtInFor(has: (token: string) => boolean): BuiltInName {
  const names = Object.keys(MARKS) as BuiltInName[]
  return names.find((name) => MARKS[name].every(has))!
}

/** @throws Error for an unknown name. */
export function builtInTemplate(name: string): string {
  const known = Object.entries(BUILT_IN_TEMPLATES).find(([other]) => other === name)
  if (known === undefined) {
    const names = Object.keys(BUILT_IN_TEMPLATES).map((other) => BUILT_IN_PREFIX + other)
    throw new Error(`there is no template '${BUILT_IN_PREFIX}${name}'; there are ${names.join(', ')}`)
  }
  return known[1]
}
