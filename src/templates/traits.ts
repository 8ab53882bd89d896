import {
  type BesideCalls,
  type ContentShape,
  type Effort,
  type TemplateInput,
  type TemplateValue,
  type ThinkingSwitch,
  type Turn,
  templateVariables,
} from './conversation.ts'

/** Some templates print schemas and arguments as JSON text. Others iterate over them. */
export type ValueForm = 'text' | 'structure'

/** The forms in which a template expects tools. */
export interface ToolForms {
  readonly parameters: ValueForm
  /** Null for a template that shows results and no calls: those then stand in the text of their turn. */
  readonly arguments: ValueForm | null
}

/** How a template must be called. */
export interface TemplateTraits {
  readonly shape: ContentShape
  /** Null when the template does not support tools. */
  readonly toolForms: ToolForms | null
  readonly thinking: ThinkingSwitch
  readonly besideCalls?: BesideCalls
}

/** @param variables those of `templateVariables`. @throws Error when the template rejects them. */
export type Render = (variables: Record<string, unknown>) => string

/** Nine letters and digits: some templates refuse any other id. */
export const CALL_ID = 'a1b2c3d4e'
export const NEEDLE = 'needle'
export const USER: Turn = { role: 'user', content: NEEDLE }
/** Probes need no texts of special tokens. */
export const NO_TOKENS = { bosToken: '', eosToken: '' }

/** What Qwen3 and most others call it. Templates ignore variables that they do not know. */
const COMMON: ThinkingSwitch = { on: { enable_thinking: true }, off: { enable_thinking: false } }
const SWITCHES: readonly ThinkingSwitch[] = [
  COMMON,
  // DeepSeek, Kimi, Granite.
  { on: { thinking: true }, off: { thinking: false } },
  // Mistral.
  { on: { reasoning_effort: 'high' }, off: { reasoning_effort: 'none' } },
]

const CHANNELS: ThinkingSwitch = {
  on: { reasoning_effort: 'medium' },
  off: { reasoning_effort: 'low' },
  takesEffort: true,
}

/**
 * Finds out by rendering short conversations how a template wants to be called.
 * @throws Error when it does not render a plain conversation.
 */
export function readTraits(render: Render): TemplateTraits {
  const shape = contentShape(render)
  const thinking = thinkingSwitch(render, shape)
  const call = (input: TemplateInput) => render(templateVariables(input, { shape, tokens: NO_TOKENS, thinking }))
  const forms = toolForms(call)
  return {
    shape,
    thinking,
    toolForms: forms,
    ...(forms?.arguments ? { besideCalls: besideCalls(call, forms.arguments) } : {}),
  }
}

function contentShape(render: Render): ContentShape {
  let cause: unknown
  for (const shape of ['string', 'parts'] as const) {
    try {
      const input = { turns: [USER], tools: [], thinking: false }
      if (render(templateVariables(input, { shape, tokens: NO_TOKENS, thinking: COMMON })).includes(NEEDLE))
        return shape
    } catch (error) {
      cause = error
    }
  }
  throw new Error('The chat template does not render a plain conversation', { cause })
}

/** The first switch that makes a difference; the common one where none does. */
function thinkingSwitch(render: Render, shape: ContentShape): ThinkingSwitch {
  const differs = (thinking: ThinkingSwitch) => {
    const options = { shape, tokens: NO_TOKENS, thinking }
    const rendered = (on: boolean) => render(templateVariables({ turns: [USER], tools: [], thinking: on }, options))
    try {
      return rendered(true) !== rendered(false)
    } catch {
      return false
    }
  }
  const found = SWITCHES.find(differs)
  if (found?.on.reasoning_effort === undefined) return found ?? COMMON
  const options = { shape, tokens: NO_TOKENS, thinking: { ...found, takesEffort: true } }
  const rendered = (effort: Effort) =>
    render(templateVariables({ turns: [USER], tools: [], thinking: true, effort }, options))
  try {
    if (new Set((['low', 'medium', 'high'] as const).map(rendered)).size < 3) return found
    // A model with channels always thinks, and knows no other words.
    const hasChannels = rendered('medium').endsWith('<|start|>assistant')
    return hasChannels ? CHANNELS : options.thinking
  } catch {
    return found
  }
}

/** What else a turn with a call may hold. */
function besideCalls(render: (input: TemplateInput) => string, form: ValueForm): BesideCalls {
  const values = form === 'text' ? '{}' : {}
  const takes = (names: readonly string[], texts: Pick<Turn, 'content' | 'reasoning'>): boolean => {
    const calls = names.map((name, index) => ({ id: CALL_ID.slice(0, -1) + index, name, arguments: values }))
    const results = calls.map(({ id, name }): Turn => ({ role: 'tool', content: 'r', answers: { id, name } }))
    try {
      const turns: Turn[] = [USER, { role: 'assistant', ...texts, toolCalls: calls }, ...results]
      const rendered = render({ turns, tools: [], thinking: false })
      return names.every((name) => rendered.includes(name))
    } catch {
      return false
    }
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
  try {
    const rendered = render({
      turns: [USER, { role: 'assistant', content: 'a-call' }, result],
      tools: [],
      thinking: false,
    })
    return rendered.includes('a-call') && rendered.includes('a-result')
  } catch {
    return false
  }
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
  for (const [form, input] of [['text', text] as const, ['structure', structure] as const]) {
    try {
      // The user turn contains one needle; a second one comes from the probed value.
      if (render(input).split(NEEDLE).length > 2) return form
    } catch {
      // A template that iterates over a structure may fail on a text.
    }
  }
  return null
}
