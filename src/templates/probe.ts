import type { ThoughtMarks } from '../families/family.ts'
import type { ToolSyntaxName } from '../families/tool-syntax.ts'
import { type TemplateInput, templateVariables } from './conversation.ts'
import { attempted, called, NEEDLE, NO_TOKENS, type Render, readTraits, type TemplateTraits, USER } from './traits.ts'

/** Properties of a model that its chat template reveals. */
export interface TemplateFindings {
  /** How the model calls tools; null if the template shows no tools, or only in an unknown syntax. */
  readonly toolSyntax: ToolSyntaxName | null
  /** How the model marks its thoughts; null if the template has none that can be opened and closed. */
  readonly thought: Omit<ThoughtMarks, 'exemplars'> | null
  /** One line for each feature of the template that cannot be used. */
  readonly warnings: readonly string[]
}

/**
 * Determines how a model writes tool calls and thoughts, by rendering short conversations in the same way as real ones.
 * @throws Error when the template does not render a plain conversation.
 */
export function probeTemplate(source: string, render: Render): TemplateFindings {
  const traits = readTraits(render)
  const attempt = (input: TemplateInput) =>
    attempted(() => render(templateVariables(input, { ...traits, tokens: NO_TOKENS })))
  const warnings: string[] = []
  const toolSyntax = probeTools(source, traits, attempt, warnings)
  return { toolSyntax, thought: probeThought(source, attempt), warnings }
}

type Attempt = (input: TemplateInput) => string | null

/** A call of the function `f` in each syntax, up to its arguments, which follow for any values. */
const CALLS: readonly (readonly [ToolSyntaxName, RegExp])[] = [
  ['qwen3_coder', /<tool_call>\s*<function=f>/],
  ['seed_oss', /<seed:tool_call>\s*<function=f>/],
  ['glm45', /<tool_call>f\n<arg_key>/],
  ['glm47', /<tool_call>f<arg_key>/],
  ['hy3', /<tool_call:opensource>f<tool_sep:opensource>/],
  ['minimax_m2', /<minimax:tool_call>\s*<invoke name="f">/],
  ['deepseek_v32', /<｜DSML｜function_calls>\s*<｜DSML｜invoke name="f">/],
  ['deepseek_v4', /<｜DSML｜tool_calls>\s*<｜DSML｜invoke name="f">/],
  ['deepseek_v3', /<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\s*```json/],
  ['deepseek_v31', /<｜tool▁call▁begin｜>f<｜tool▁sep｜>/],
  ['kimi_k2', /<\|tool_call_begin\|>[^<]*<\|tool_call_argument_begin\|>/],
  ['harmony', / to=functions\.f\s*(?:<\|channel\|>|<\|constrain\|>)/],
  ['lfm2', /<\|tool_call_start\|>\[f\(/],
  ['olmo3', /<function_calls>\s*f\(/],
  ['cohere', /<\|START_ACTION\|>\s*\[\s*\{"tool_call_id":[^,]*,\s*"tool_name":\s*"f"/],
  ['nemotron', /<TOOLCALL>\s*\[\{"name":\s*"f"/],
  ['apertus', /<\|tools_prefix\|>\[\{"f":/],
  ['granite', /<\|tool_call\|>\s*\[\{"name":\s*"f"/],
  ['functools', /\bfunctools\[\{"name":\s*"f"/],
  ['hunyuan', /<tool_calls>\s*\[\{"name":\s*"f"/],
  ['minimax_m1', /<tool_calls>\s*\{"name":\s*"f"/],
  ['gigachat3', /<\|function_call\|>\{"name":\s*"f"/],
  ['minicpm5', /<function name="f">/],
  ['functionary', /<function=f>\s*["{]/],
  ['hermes', /<tool_call>\s*\{(?:"arguments":.*,\s*)?"name":\s*"f"/s],
  ['gemma4', /<\|tool_call>call:f\{/],
  ['mistral', /\[TOOL_CALLS\]\s*(?:f\s*(?:\[CALL_ID\][^[]*)?\[ARGS\]|\[\{"name":\s*"f")/],
  ['llama3', /\{"name":\s*"f",\s*"parameters":/],
]

/** Patterns for the syntax in templates without a place for calls, where they declare tools. */
const DECLARED: readonly (readonly [ToolSyntaxName, RegExp])[] = [
  ['lfm2', /<\|tool_list_start\|>|List of tools: \[/],
  ['granite', /<\|tool_call\|>/],
]

/** Whether conversations with calls of this syntax can be rendered. */
export function takesCalls({ toolForms }: TemplateTraits, syntax: ToolSyntaxName | undefined): boolean {
  return toolForms !== null && (toolForms.arguments !== null || DECLARED.some(([name]) => name === syntax))
}

function probeTools(
  source: string,
  { toolForms }: TemplateTraits,
  attempt: Attempt,
  warnings: string[],
): ToolSyntaxName | null {
  const declared = toolForms?.arguments === null ? DECLARED.find(([, pattern]) => pattern.test(source)) : undefined
  if (declared !== undefined) return declared[0]
  if (!toolForms?.arguments) {
    if (/\btools\b/.test(source))
      warnings.push('the chat template has tools, but does not render a call and its result: no tool calling')
    return null
  }
  const rendered = attempt(called(toolForms.arguments === 'text' ? NEEDLE : { [NEEDLE]: 'v' })) ?? ''
  // Outside the user's turn, and outside the declaration of tools, which may show several syntaxes.
  const syntax = CALLS.find(([, pattern]) => pattern.test(rendered))
  if (syntax !== undefined) return syntax[0]
  warnings.push('the chat template writes tool calls in a syntax that is not known here: no tool calling')
  return null
}

interface Marks {
  readonly begin: string
  readonly end: string
  /** The text after a thought, if a template does not show it. */
  readonly closing?: string
  /** A mark in every prompt of models that always think. */
  readonly sign?: string
}

const FINAL_RESPONSE = '[BEGIN FINAL RESPONSE]'
const HARMONY = '<|channel|>'
const MARKS: readonly Marks[] = [
  { begin: '<think>', end: '</think>' },
  { begin: '◁think▷', end: '◁/think▷' },
  // Ministral, whose own system text tells the model how to think.
  { begin: '[THINK]', end: '[/THINK]', sign: '[THINK]' },
  { begin: '<seed:think>', end: '</seed:think>' },
  // Gemma 4.
  { begin: '<|channel>thought\n', end: '<channel|>' },
  // Cohere.
  { begin: '<|START_THINKING|>', end: '<|END_THINKING|>' },
  // MiniMax-M3.
  { begin: '<mm:think>', end: '</mm:think>' },
  // Hy3.
  { begin: '<think:opensource>', end: '</think:opensource>' },
  // Kimi K3.
  { begin: '<|open|>think<|sep|>', end: '<|close|>think<|sep|>' },
  // Apertus.
  { begin: '<|inner_prefix|>', end: '<|inner_suffix|>' },
  // Apriel.
  {
    begin: 'Here are my reasoning steps:\n',
    end: FINAL_RESPONSE,
    closing: `\n${FINAL_RESPONSE}\n`,
    sign: FINAL_RESPONSE,
  },
  // gpt-oss.
  {
    begin: `${HARMONY}analysis<|message|>`,
    end: '<|end|>',
    closing: `<|end|><|start|>assistant${HARMONY}final<|message|>`,
    sign: '# Valid channels: analysis',
  },
]

/**
 * A model thinks if its prompt can open a thought, or close one before it begins, or describes how to think, or if its
 * earlier turns begin with a thought even if they had none. A template that shows earlier thoughts is not evidence by
 * itself: templates of models that never think do so too.
 */
function probeThought(source: string, attempt: Attempt): TemplateFindings['thought'] {
  const prompt = (thinking: boolean) => attempt({ turns: [USER], tools: [], thinking }) ?? ''
  const on = prompt(true)
  const off = prompt(false)
  for (const marks of MARKS) {
    const { begin, end, sign } = marks
    const opened = tailFrom(on, begin, end)
    const closed = tailFrom(off, begin, end)
    const opens = opened !== null && !opened.includes(end)
    const closes = closed?.includes(end) ?? false
    const isShown = mentions(source, attempt, begin, end)
    // Some turn thinking on with a mark elsewhere, and leave it to the model to open its thought.
    const switches = on !== off && opened === null && closed === null && isShown
    const isUnasked = sign !== undefined && off.includes(sign)
    if (!opens && !closes && !switches && !isUnasked && !fillsIn(attempt, begin, end)) continue
    const between = betweenThoughtAndReply(attempt, begin, end)
    const text = opens ? opened : (between?.begin ?? openingOf(closed ?? begin, begin, end))
    const rest = opens && closes && closed!.startsWith(text) ? closed!.slice(text.length) : null
    // If a template opens a thought with a line break of its own, all known models close it in the same way.
    const usual = marks.closing ?? (text === `${begin}\n` ? `\n${end}\n\n` : end)
    return { begin: text, end, closing: rest ?? between?.closing ?? usual }
  }
  return null
}

/** The text from the last mark that opens a thought; null if there is none, or if a reply follows it. */
function tailFrom(prompt: string, begin: string, end: string): string | null {
  const at = prompt.lastIndexOf(begin)
  if (at === -1) return null
  const tail = prompt.slice(at)
  if (tail.includes(NEEDLE)) return null
  const inner = tail.slice(begin.length).trim()
  // Some close a thought that contains a sentence.
  return inner === '' || inner.endsWith(end) ? tail : null
}

/** Whether an earlier turn without a thought is rendered with an empty one. */
function fillsIn(attempt: Attempt, begin: string, end: string): boolean {
  const reply = { role: 'assistant', content: REPLY } as const
  const rendered = attempt({ turns: [USER, reply, USER], tools: [], thinking: true }) ?? ''
  const before = rendered.slice(0, Math.max(0, rendered.indexOf(REPLY))).trimEnd()
  return before.endsWith(end) && before.slice(0, -end.length).trimEnd().endsWith(begin.trim())
}

/** For example, `<think>\n` in `<think>\n\n</think>\n\n`. */
function openingOf(closed: string, begin: string, end: string): string {
  const inner = closed.slice(begin.length, Math.max(begin.length, closed.indexOf(end)))
  return begin + (inner.startsWith('\n') ? '\n' : '')
}

const THOUGHT = 'a-thought'
const REPLY = 'a-reply'

/** How the template itself writes a thought and the reply after it. */
function betweenThoughtAndReply(
  attempt: Attempt,
  begin: string,
  end: string,
): { readonly begin: string; readonly closing: string } | null {
  const rendered = withThought(attempt)
  const thought = rendered.indexOf(THOUGHT)
  const from = rendered.lastIndexOf(begin, thought)
  const to = rendered.indexOf(REPLY, thought)
  if (thought === -1 || from === -1 || to === -1) return null
  const opening = rendered.slice(from, thought)
  const closing = rendered.slice(thought + THOUGHT.length, to)
  if (opening.slice(begin.length).trim() !== '') return null
  return closing.trimStart().startsWith(end) ? { begin: opening, closing } : null
}

/** Whether the template itself contains these marks, or writes them around an earlier thought. */
function mentions(source: string, attempt: Attempt, begin: string, end: string): boolean {
  const rendered = withThought(attempt)
  return [source, rendered].some((text) => text.includes(begin) && text.includes(end))
}

function withThought(attempt: Attempt): string {
  const turns = [USER, { role: 'assistant', content: REPLY, reasoning: THOUGHT } as const]
  return attempt({ turns, tools: [], thinking: true }) ?? ''
}
