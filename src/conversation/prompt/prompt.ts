import type { ThoughtMarks } from '../../families/family.ts'
import type { Dialect, Scene } from '../../grounding/dialect.ts'
import { DIALECTS } from '../../grounding/dialects/dialects.ts'
import { HINT_MARKS } from '../../grounding/hints.ts'
import { inNotation } from '../../grounding/markup-pieces.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import { internalError, invalidRequest } from '../../lib/errors/errors.ts'
import { type Path, within } from '../../lib/errors/param.ts'
import type { Size } from '../../media/pixels.ts'
import {
  type AssistantMessage,
  type PlacedMessage,
  partsOf,
  type ToolCall,
  type ToolMessage,
} from '../request/message.ts'
import type { Tool } from '../request/tool.ts'
import type { ToolSyntax } from '../tools/syntax.ts'
import { TOOL_SYNTAXES } from '../tools/syntaxes.ts'
import type { ChatTemplate, Effort, TemplateInput, Turn } from './chat-template.ts'
import { type LoadedMedia, pictureOf } from './media-parts.ts'
import { Placeholders, untrusted } from './placeholders.ts'
import { templateValue } from './template-values.ts'

export interface PromptSource {
  /** The request field that holds the messages, for errors. */
  readonly param: string
  readonly messages: readonly PlacedMessage[]
  readonly media: LoadedMedia
  /** The server's own text for the start of the system turn. */
  readonly instruction?: string | null
  /** Whether the model is asked for annotations, so that earlier replies show it its own notation. */
  readonly annotated?: boolean
  /** Text for the end of the last user turn. */
  readonly demand?: string | null
  /** Functions that the prompt describes. */
  readonly tools?: readonly Tool[]
  /** Whether the prompt ends within a thought. */
  readonly thinking?: boolean
  /** The reasoning effort, if the client sets one. */
  readonly effort?: Effort | undefined
  /** Whether the prompt includes earlier thoughts that the client sends. */
  readonly replaysReasoning?: boolean
}

/** The form in which a model takes a conversation. */
export interface PromptStyle {
  readonly template: ChatTemplate
  /** Null for a model that does not reason. */
  readonly thought: ThoughtMarks | null
  /** Marks that have a meaning to the model but are not control tokens. In clients' texts they are plain text. */
  readonly marks: readonly string[]
  /** The model's own notation of annotations; absent if it writes the contract's markup, or none. */
  readonly dialect?: Dialect
  /** The beginning of a reply without thoughts and calls, if the template leaves it to the model. */
  readonly answer?: string
  /** Writes calls as text, for templates without support for them. */
  readonly write?: ToolSyntax['write']
  /** Makes the ids that calls have in prompts. */
  readonly callId?: ToolSyntax['callId']
}

export function promptStyle({ card }: ServedModel, template: ChatTemplate): PromptStyle {
  const { thought = null, toolSyntax, extensions, dialect } = card
  const marks = [
    ...(thought ? [thought.begin.trim(), thought.end] : []),
    ...(toolSyntax ? TOOL_SYNTAXES[toolSyntax].marks : []),
    ...(extensions ? HINT_MARKS : []),
  ]
  const { answer, callId, write }: Partial<ToolSyntax> = toolSyntax ? TOOL_SYNTAXES[toolSyntax] : {}
  return {
    template,
    thought,
    marks,
    ...(dialect === null || dialect === 'markup' ? {} : { dialect: DIALECTS[dialect] }),
    ...(answer ? { answer } : {}),
    ...(callId ? { callId } : {}),
    ...(write && template.toolForms?.arguments === null ? { write } : {}),
  }
}

/**
 * Renders a conversation to prompt parts for an engine.
 *
 * The template sees placeholders instead of the client's texts. The text that it writes around them is its own, and only
 * that may contain control tokens. So with any template, no client's text can end its turn or open another.
 *
 * @throws ApiError 400 when the template rejects the conversation.
 */
export async function buildPrompt(source: PromptSource, style: PromptStyle): Promise<PromptPart[]> {
  const slots = new Placeholders()
  const rendered = await render(source, [], slots, style)
  return separateMarks(slots.fill(rendered), style)
}

/** A shared beginning of several prompts. */
export interface SharedPrompt {
  readonly prefix: readonly PromptPart[]
  /** Returns the rest of the prompt for this content of the last user turn. It contains text: it ends the turn. */
  suffix(content: readonly PromptPart[]): PromptPart[]
}

/**
 * Renders a conversation that ends with a user turn whose content is still open. It is rendered once, with a placeholder
 * for the open content, and cut there. So with any template, the text before the content is the same for all contents.
 *
 * @param opening the common beginning of all contents: it belongs to the prefix.
 */
export async function buildSharedPrompt(
  source: PromptSource,
  style: PromptStyle,
  opening: readonly PromptPart[] = [],
): Promise<SharedPrompt> {
  const slots = new Placeholders()
  const open = slots.open()
  const rendered = await render(source, [{ role: 'user', content: open }], slots, style)
  const cut = rendered.indexOf(open)
  const rest = rendered.slice(cut)
  return {
    prefix: separateMarks([...slots.fill(rendered.slice(0, cut)), ...opening], style),
    suffix: (content) => separateMarks(slots.fill(rest, content), style),
  }
}

async function render(
  source: PromptSource,
  more: readonly Turn[],
  slots: Placeholders,
  style: PromptStyle,
): Promise<string> {
  const { param, tools = [], thinking = false, effort } = source
  const { template, thought, answer = '' } = style
  const input: TemplateInput = {
    turns: [...turns(source, slots, style), ...more],
    tools: tools.map((tool) => declaration(tool, slots, template)),
    thinking,
    ...(effort === undefined ? {} : { effort }),
  }
  const rendered = await template.render(input, param)
  slots.checkAllIn(rendered, param)
  const opened = thought === null ? rendered : withThought(rendered, thinking, thought)
  return thinking || tools.length > 0 ? opened : opened + answer
}

/** Templates open a thought themselves or leave that to the model; some open one even when reasoning is off. */
function withThought(rendered: string, thinking: boolean, { begin, closing }: ThoughtMarks): string {
  const isOpen = rendered.trimEnd().endsWith(begin.trim())
  if (thinking) return isOpen ? rendered : rendered + begin
  return isOpen ? rendered.trimEnd() + closing : rendered
}

/** Templates disagree about consecutive system turns, so the leading ones become one. */
function turns(source: PromptSource, slots: Placeholders, style: PromptStyle): Turn[] {
  const { media, instruction = null, demand = null, annotated = false } = source
  const messages = annotated && style.dialect ? inOwnNotation(source.messages, media, style.dialect) : source.messages
  const firstOther = messages.findIndex(({ message }) => message.role !== 'system' && message.role !== 'developer')
  const leading = messages.slice(0, firstOther === -1 ? messages.length : firstOther)
  const result: Turn[] = []
  if (instruction !== null || leading.length > 0) {
    const system: PromptPart[] = instruction === null ? [] : [{ type: 'text', text: instruction, trusted: true }]
    for (const [i, placed] of leading.entries()) {
      if (i > 0) system.push({ type: 'text', text: '\n', trusted: false })
      system.push(...contentOf(placed, media))
    }
    // Some formats put the system text into the last user turn, and omit it after the result of a call.
    const optional = messages.at(-1)?.message.role === 'tool'
    result.push({ role: 'system', content: slots.put(system, { optional }) })
  }
  const calls = new Map<string, CalledFunction>()
  const asking = messages.findLast(({ message }) => message.role === 'user')
  for (const placed of messages.slice(leading.length)) {
    const { message } = placed
    const demanded = placed === asking && demand !== null ? untrusted(`\n${demand}`) : []
    const written = message.role === 'assistant' ? writtenCalls(message, style) : []
    // Some formats leave out the model's text beside its calls.
    const optional = message.role === 'assistant' && (message.tool_calls ?? []).length > 0 && written.length === 0
    const escapes = message.role === 'tool'
    const content = slots.put([...contentOf(placed, media), ...demanded, ...written], { optional, escapes })
    if (message.role === 'assistant') {
      const extras = assistantExtras({ message, param: placed.param }, { source, slots, style, calls })
      result.push({ role: 'assistant', content, ...extras })
    } else if (message.role === 'tool') {
      result.push({ role: 'tool', content, answers: calledFunction(message, placed.param, calls) })
    } else {
      result.push({ role: message.role === 'developer' ? 'system' : message.role, content })
    }
  }
  return result
}

/** Earlier replies as the model wrote them. It would imitate the markup that clients send, which it was not asked for. */
function inOwnNotation(messages: readonly PlacedMessage[], media: LoadedMedia, dialect: Dialect): PlacedMessage[] {
  const shown: { readonly image: Size | null; readonly timed: boolean }[] = []
  const sceneOf = (asset: number | undefined): Scene => {
    const own = asset === undefined ? undefined : shown[asset]
    const last = shown.findLast(({ image }) => image !== null)
    return { assets: 1, ...((own?.image ? own : last) ?? { image: null, timed: false }) }
  }
  const told = (text: string) => inNotation(text, dialect, sceneOf)
  return messages.map((placed) => {
    for (const { part } of partsOf(placed)) {
      if (part.type === 'text') continue
      const loaded = media.get(part)
      shown.push({ image: pictureOf(loaded), timed: loaded?.span !== undefined })
    }
    const { message } = placed
    if (message.role !== 'assistant' || !message.content) return placed
    const { content } = message
    const own =
      typeof content === 'string' ? told(content) : content.map((part) => ({ ...part, text: told(part.text) }))
    return { ...placed, message: { ...message, content: own } }
  })
}

function writtenCalls({ tool_calls: calls }: AssistantMessage, { write }: PromptStyle): PromptPart[] {
  if (!write || !calls || calls.length === 0) return []
  return write(calls.map((call) => ({ name: call.function.name, arguments: argumentsOf(call) })))
}

/** Clients leave out what a function without parameters is called with. */
function argumentsOf({ function: { arguments: text } }: ToolCall): string {
  return text.trim() === '' ? '{}' : text
}

/** A call in the template's form. */
interface CalledFunction {
  readonly id: string
  readonly name: string
}

interface TurnContext {
  readonly source: PromptSource
  readonly slots: Placeholders
  readonly style: PromptStyle
  /** Called functions by the client's call id. */
  readonly calls: Map<string, CalledFunction>
}

function assistantExtras(
  { message, param }: { message: AssistantMessage; param: Path },
  { source, slots, style: { template, write, callId = templateCallId }, calls }: TurnContext,
): Pick<Turn, 'reasoning' | 'toolCalls'> {
  const reasoning = source.replaysReasoning ? (message.reasoning_content ?? '') : ''
  const toolCalls = (message.tool_calls ?? []).map((call: ToolCall, index) => {
    const form = template.toolForms?.arguments ?? 'text'
    const own = within(param, 'tool_calls', index, 'function', 'arguments')
    const values = templateValue(argumentsOf(call), { form, kind: 'data', slots, param: own })
    const name = slots.name(call.function.name)
    const called = { id: callId(calls.size, name), name }
    calls.set(call.id, called)
    return { ...called, arguments: values }
  })
  return {
    ...(reasoning === '' ? {} : { reasoning: slots.text(reasoning, { optional: true }) }),
    ...(toolCalls.length === 0 || write !== undefined ? {} : { toolCalls }),
  }
}

/** Replaces the client's ids with ids in a form that every template accepts. */
function templateCallId(index: number): string {
  return `call${String(index % 100_000).padStart(5, '0')}`
}

function calledFunction(
  { tool_call_id: id }: ToolMessage,
  param: Path,
  calls: ReadonlyMap<string, CalledFunction>,
): CalledFunction {
  const called = calls.get(id)
  if (called) return called
  throw invalidRequest(
    `No earlier assistant message has a tool call with the id '${id.slice(0, 100)}'`,
    within(param, 'tool_call_id'),
    {
      code: 'invalid_tool_result',
    },
  )
}

function declaration(tool: Tool, slots: Placeholders, template: ChatTemplate): TemplateInput['tools'][number] {
  const { name, description, parameters } = tool
  const form = template.toolForms?.parameters ?? 'text'
  return {
    name: slots.name(name),
    description:
      description === null ? null : slots.text(description, { json: JSON.stringify(description), optional: true }),
    parameters: templateValue(parameters ?? '{"type": "object", "properties": {}}', {
      form,
      kind: 'schema',
      slots,
      param: ['tools'],
    }),
  }
}

/** Converts a client's texts and media to prompt parts. */
export function contentOf(placed: PlacedMessage, media: LoadedMedia): PromptPart[] {
  const parts: PromptPart[] = []
  for (const { part } of partsOf(placed)) {
    if (part.type === 'text') {
      parts.push(...untrusted(part.text))
      continue
    }
    const loaded = media.get(part)
    if (!loaded) throw internalError(new Error(`A part of type ${part.type} was admitted and not loaded`))
    // The engine puts the family's tokens around media, so the template must not.
    parts.push(...loaded.parts)
  }
  return parts
}

/**
 * Cuts clients' texts within each mark. Marks such as `<tool_call>` are not control tokens but are still single tokens.
 * Engines tokenise each part separately, so they see a cut mark as plain characters.
 */
function separateMarks(parts: readonly PromptPart[], { marks }: PromptStyle): PromptPart[] {
  if (marks.length === 0) return [...parts]
  const pattern = new RegExp(marks.map((mark) => `(?<=${escaped(mark[0]!)})(?=${escaped(mark.slice(1))})`).join('|'))
  return parts.flatMap((part): PromptPart[] => {
    if (part.type !== 'text' || part.trusted) return [part]
    return part.text.split(pattern).map((text) => ({ type: 'text', text, trusted: false }))
  })
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}
