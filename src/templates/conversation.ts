/** A conversation in the form that chat templates take. */
export interface Turn {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string
  readonly reasoning?: string
  readonly toolCalls?: readonly TemplateToolCall[]
  /** For a tool turn: the call that it answers. */
  readonly answers?: { readonly id: string; readonly name: string }
}

interface TemplateToolCall {
  readonly id: string
  readonly name: string
  readonly arguments: TemplateValue
}

interface TemplateTool {
  readonly name: string
  readonly description: string | null
  readonly parameters: TemplateValue
}

/** A value in the form that the template expects, with placeholders for the parts that a client wrote. */
export type TemplateValue = unknown

export interface TemplateInput {
  readonly turns: readonly Turn[]
  readonly tools: readonly TemplateTool[]
  /** Whether reasoning is on. */
  readonly thinking: boolean
  /** How much reasoning, for templates that tell their model. */
  readonly effort?: Effort
}

export type Effort = 'low' | 'medium' | 'high'

/** Whether a template reads `content` as a string or as a list of parts; the wrong form renders as nothing. */
export type ContentShape = 'string' | 'parts'

/** The value of `tools` if there are none: most templates accept None, but some only an undefined variable. */
export type NoTools = 'none' | 'undefined'

/** Texts of the special tokens that templates refer to; empty if the model has none. */
export interface SpecialTokens {
  readonly bosToken: string
  readonly eosToken: string
}

/** Variables that turn thinking on and off in a template. */
export interface ThinkingSwitch {
  readonly on: Readonly<Record<string, unknown>>
  readonly off: Readonly<Record<string, unknown>>
  /** Whether `reasoning_effort` accepts any of the efforts. */
  readonly takesEffort?: boolean
}

export interface ValueOptions {
  readonly shape: ContentShape
  readonly noTools: NoTools
  readonly tokens: SpecialTokens
  readonly thinking: ThinkingSwitch
  /** What a turn may contain beside a call; anything by default. */
  readonly besideCalls?: BesideCalls
}

/** Some templates accept only one call per turn, and some of those no text beside a thought in it. */
export interface BesideCalls {
  readonly otherCalls: boolean
  readonly bothTexts: boolean
}

/** The variables of a template that render this conversation, up to where the model's reply begins. */
export function templateVariables(
  { turns, tools, thinking, effort }: TemplateInput,
  { shape, noTools, tokens, thinking: { on, off, takesEffort }, besideCalls }: ValueOptions,
): Record<string, unknown> {
  const declared = tools.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, ...(description === null ? {} : { description }), parameters },
  }))
  return {
    bos_token: tokens.bosToken,
    eos_token: tokens.eosToken,
    messages: withCalls(turns, besideCalls).map((turn) => toMessage(turn, shape)),
    // Transformers sets both for every conversation.
    ...(declared.length > 0 ? { tools: declared } : noTools === 'none' ? { tools: null } : {}),
    documents: null,
    add_generation_prompt: true,
    ...(thinking ? on : off),
    ...(thinking && takesEffort && effort !== undefined ? { reasoning_effort: effort } : {}),
  }
}

/** Rearranges turns with calls into a form that the template accepts. */
function withCalls(turns: readonly Turn[], beside: BesideCalls = { otherCalls: true, bothTexts: true }): Turn[] {
  return turns.flatMap((turn, at): Turn[] => {
    if (turn.role === 'tool' && !beside.otherCalls && turnOf(turn, turns.slice(0, at)) !== undefined) return []
    const { toolCalls = [] } = turn
    if (toolCalls.length === 0) return [turn]
    const whole = beside.bothTexts ? turn : withOneText(turn)
    if (beside.otherCalls || toolCalls.length === 1) return [whole]
    const results = turns.slice(at + 1)
    return toolCalls.flatMap((call, index): Turn[] => {
      const own = results.filter((other) => other.answers?.id === call.id)
      const texts: Turn = index === 0 ? whole : { role: 'assistant', content: '' }
      return [{ ...texts, toolCalls: [call] }, ...own]
    })
  })
}

/** The earlier turn with several calls that includes the one that this turn answers. */
function turnOf({ answers }: Turn, earlier: readonly Turn[]): Turn | undefined {
  return earlier.find(({ toolCalls = [] }) => toolCalls.length > 1 && toolCalls.some(({ id }) => id === answers?.id))
}

function withOneText(turn: Turn): Turn {
  const { content, reasoning = '' } = turn
  return content === '' || reasoning === '' ? turn : { ...turn, content: '', reasoning: `${reasoning}\n${content}` }
}

function toMessage({ role, content, reasoning, toolCalls = [], answers }: Turn, shape: ContentShape): object {
  const empty = content === '' && toolCalls.length > 0
  return {
    role,
    content: shape === 'string' ? content : empty ? [] : [{ type: 'text', text: content }],
    // gpt-oss uses the second name. Transformers passes both.
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning, thinking: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : {
          tool_calls: toolCalls.map(({ id, name, arguments: values }) => ({
            id,
            type: 'function',
            function: { name, arguments: values },
          })),
        }),
    ...(answers === undefined ? {} : { tool_call_id: answers.id, name: answers.name }),
  }
}
