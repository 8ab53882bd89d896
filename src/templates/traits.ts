import {
  type BesideCalls,
  type ContentShape,
  type Effort,
  type NoTools,
  type TemplateInput,
  type TemplateValue,
  type ThinkingSwitch,
  type Turn,
  templateVariables,
} from './conversation.ts'

/** Some templates print schemas and arguments as JSON text. Others iterate over them. */
export type ValueForm = 'text' | 'structure'

/** The forms of tools that a template expects. */
export interface ToolForms {
  readonly parameters: ValueForm
  /** Null for a template that shows results but no calls: calls are then written into the text of their turn. */
  readonly arguments: ValueForm | null
}

/** How to call a template. */
export interface TemplateTraits {
  readonly shape: ContentShape
  readonly noTools: NoTools
  /** Null if the template does not support tools. */
  readonly toolForms: ToolForms | null
  readonly thinking: ThinkingSwitch
  readonly besideCalls?: BesideCalls
}

/**
 * @param variables from `templateVariables`.
 * @throws Error when the template rejects them.
 */
export type Render = (variables: Record<string, unknown>) => string

/** A template's output; null if it rejects its variables. */
export function attempted(render: () => string): string | null {
  try {
    return render()
  } catch {
    return null
  }
}

/** Nine letters and digits: some templates reject any other id. */
const CALL_ID = 'a1b2c3d4e'
export const NEEDLE = 'needle'
export const USER: Turn = { role: 'user', content: NEEDLE }
/** Probes do not need the texts of special tokens. */
export const NO_TOKENS = { bosToken: '', eosToken: '' }

/** The name in Qwen3 and most other templates. Templates ignore unknown variables. */
const COMMON: ThinkingSwitch = { on: { enable_thinking: true }, off: { enable_thinking: false } }
const SWITCHES: readonly ThinkingSwitch[] = [
  COMMON,
  // DeepSeek, Kimi, Granite.
  { on: { thinking: true }, off: { thinking: false } },
  // Mistral, Cohere.
  { on: { reasoning_effort: 'high' }, off: { reasoning_effort: 'none' } },
  // Hy3 rejects other words.
  { on: { reasoning_effort: 'high' }, off: { reasoning_effort: 'no_think' } },
  // MiniMax-M3.
  { on: { thinking_mode: 'enabled' }, off: { thinking_mode: 'disabled' } },
  // Seed-OSS, whose budget is unlimited unless set.
  { on: {}, off: { thinking_budget: 0 } },
]
/** Solar closes a thought for this word. */
const EFFORT: ThinkingSwitch = { on: { reasoning_effort: 'high' }, off: { reasoning_effort: 'low' } }
const CHANNELS: ThinkingSwitch = {
  on: { reasoning_effort: 'medium' },
  off: { reasoning_effort: 'low' },
  takesEffort: true,
}

/**
 * Determines how to call a template, by rendering short conversations.
 * @throws Error when it does not render a plain conversation.
 */
export function readTraits(render: Render): TemplateTraits {
  const form = plainForm(render)
  const thinking = thinkingSwitch(render, form)
  const call = (input: TemplateInput) => render(templateVariables(input, { ...form, tokens: NO_TOKENS, thinking }))
  const forms = toolForms(call)
  return {
    ...form,
    thinking,
    toolForms: forms,
    ...(forms?.arguments ? { besideCalls: besideCalls(call, forms.arguments) } : {}),
  }
}

type PlainForm = Pick<TemplateTraits, 'shape' | 'noTools'>

const PLAIN_FORMS: readonly PlainForm[] = [
  { shape: 'string', noTools: 'none' },
  { shape: 'parts', noTools: 'none' },
  { shape: 'string', noTools: 'undefined' },
  { shape: 'parts', noTools: 'undefined' },
]

/** The form in which the template renders a plain conversation. */
function plainForm(render: Render): PlainForm {
  let cause: unknown
  for (const form of PLAIN_FORMS) {
    try {
      const input = { turns: [USER], tools: [], thinking: false }
      if (render(templateVariables(input, { ...form, tokens: NO_TOKENS, thinking: COMMON })).includes(NEEDLE))
        return form
    } catch (error) {
      cause ??= error
    }
  }
  throw new Error('The chat template does not render a plain conversation', { cause })
}

/** The first switch that makes a difference; the common one if none does. */
function thinkingSwitch(render: Render, form: PlainForm): ThinkingSwitch {
  const rendered = (thinking: ThinkingSwitch, on: boolean, effort?: Effort): string | null => {
    const input = { turns: [USER], tools: [], thinking: on, ...(effort === undefined ? {} : { effort }) }
    return attempted(() => render(templateVariables(input, { ...form, tokens: NO_TOKENS, thinking })))
  }
  const differs = (thinking: ThinkingSwitch) => {
    const on = rendered(thinking, true)
    const off = rendered(thinking, false)
    return on !== null && off !== null && on !== off
  }
  const found = [...SWITCHES, EFFORT].find(differs) ?? COMMON
  if (found.on.reasoning_effort === undefined) return found
  const asked: ThinkingSwitch = { ...found, takesEffort: true }
  const efforts = (['low', 'medium', 'high'] as const).map((effort) => rendered(asked, true, effort))
  if (efforts.includes(null) || new Set(efforts).size < 3) return found
  // A model with channels always thinks, and accepts no other words.
  return efforts[1]!.endsWith('<|start|>assistant') ? CHANNELS : asked
}

/** What a turn with a call may also contain. */
function besideCalls(render: (input: TemplateInput) => string, form: ValueForm): BesideCalls {
  const values = form === 'text' ? '{}' : {}
  const takes = (names: readonly string[], texts: Pick<Turn, 'content' | 'reasoning'>): boolean => {
    const calls = names.map((name, index) => ({ id: CALL_ID.slice(0, -1) + index, name, arguments: values }))
    const results = calls.map(({ id, name }): Turn => ({ role: 'tool', content: 'r', answers: { id, name } }))
    const turns: Turn[] = [USER, { role: 'assistant', ...texts, toolCalls: calls }, ...results]
    const rendered = attempted(() => render({ turns, tools: [], thinking: false }))
    return rendered !== null && names.every((name) => rendered.includes(name))
  }
  const [first, second] = ['first-call', 'second-call']
  return {
    otherCalls: !takes([first!], { content: '' }) || takes([first!, second!], { content: '' }),
    bothTexts: !takes([first!], { content: 'x' }) || takes([first!], { content: 'x', reasoning: 'y' }),
  }
}

function toolForms(render: (input: TemplateInput) => string): ToolForms | null {
  const schema = { type: 'object', properties: { [NEEDLE]: { type: 'string', description: 'd' } }, required: [NEEDLE] }
  const parameters = formRendered(render, declared(NEEDLE), declared(schema))
  const values = formRendered(render, called(NEEDLE), called({ [NEEDLE]: 'v' }))
  if (parameters === null || (values === null && !showsResults(render))) return null
  return { parameters, arguments: values }
}

function showsResults(render: (input: TemplateInput) => string): boolean {
  const result: Turn = { role: 'tool', content: 'a-result', answers: { id: CALL_ID, name: 'f' } }
  const turns: Turn[] = [USER, { role: 'assistant', content: 'a-call' }, result]
  const rendered = attempted(() => render({ turns, tools: [], thinking: false })) ?? ''
  return rendered.includes('a-call') && rendered.includes('a-result')
}

function declared(parameters: TemplateValue): TemplateInput {
  return { turns: [USER], tools: [{ name: 'f', description: 'd', parameters }], thinking: false }
}

/** A conversation with a call of the function `f`, and its result. */
export function called(values: TemplateValue): TemplateInput {
  return {
    turns: [
      USER,
      { role: 'assistant', content: '', toolCalls: [{ id: CALL_ID, name: 'f', arguments: values }] },
      { role: 'tool', content: 'r', answers: { id: CALL_ID, name: 'f' } },
    ],
    tools: [],
    thinking: false,
  }
}

function formRendered(
  render: (input: TemplateInput) => string,
  text: TemplateInput,
  structure: TemplateInput,
): ValueForm | null {
  const attempt = (input: TemplateInput): string | null => {
    // A template that iterates over a structure may fail for text.
    const rendered = attempted(() => render(input)) ?? ''
    // The user turn contains one needle; a second one must come from the probed value.
    return rendered.split(NEEDLE).length > 2 ? rendered : null
  }
  const asText = attempt(text)
  // In these quotes, the text was printed by Python's `repr`, so the template prints structures in Python's form.
  if (asText !== null && !asText.includes(`'${NEEDLE}'`)) return 'text'
  if (attempt(structure) !== null) return 'structure'
  return asText === null ? null : 'text'
}
