import { Template } from '@huggingface/jinja'
import type { ModelInfo } from '../../inference/engine.ts'
import { invalidRequest } from '../../lib/errors.ts'
import { FALLBACK_TEMPLATE } from './fallback-template.ts'
import type { TemplateThreads } from './template-threads.ts'

export interface Turn {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string
  readonly reasoning?: string
  readonly toolCalls?: readonly TemplateToolCall[]
  /** For a tool turn: the call that it answers. */
  readonly answers?: { readonly id: string; readonly name: string }
}

export interface TemplateToolCall {
  readonly id: string
  readonly name: string
  readonly arguments: TemplateValue
}

export interface TemplateTool {
  readonly name: string
  readonly description: string | null
  readonly parameters: TemplateValue
}

/** A value in the form that the template expects, with placeholders for the parts that a client wrote. */
export type TemplateValue = unknown

/** Some templates print schemas and arguments as JSON text. Others iterate over them. */
export type ValueForm = 'text' | 'structure'

export interface TemplateInput {
  readonly turns: readonly Turn[]
  readonly tools: readonly TemplateTool[]
  /** Whether reasoning is on. */
  readonly thinking: boolean
}

type ContentShape = 'string' | 'parts'

/** The forms in which a template expects tools. */
export interface ToolForms {
  readonly parameters: ValueForm
  readonly arguments: ValueForm
}

/** Conversations with more turns are rendered in a thread. This many take about ten milliseconds. */
const MOST_TURNS_AT_ONCE = 256

/** A model's chat template. */
export class ChatTemplate {
  /** Null when the template does not support tools. */
  readonly toolForms: ToolForms | null
  readonly #source: string
  readonly #template: Template
  readonly #threads: TemplateThreads | null
  readonly #tokens: { readonly bos_token: string; readonly eos_token: string }
  readonly #shape: ContentShape

  /**
   * @param threads render long conversations; null to render them on the event loop.
   * @throws Error when the template is invalid, or does not render a plain conversation.
   */
  constructor(info: Pick<ModelInfo, 'chatTemplate' | 'bosToken' | 'eosToken'>, threads: TemplateThreads | null = null) {
    this.#source = info.chatTemplate ?? FALLBACK_TEMPLATE
    this.#template = new Template(this.#source)
    this.#threads = threads
    this.#tokens = { bos_token: info.bosToken, eos_token: info.eosToken }
    this.#shape = this.#probe()
    this.toolForms = this.#probeTools()
  }

  /**
   * Renders the conversation as text that ends where the model's reply begins.
   * @throws ApiError 400 naming `param` when the template rejects the conversation.
   */
  async render(input: TemplateInput, param: string): Promise<string> {
    try {
      if (this.#threads === null || input.turns.length <= MOST_TURNS_AT_ONCE) return this.#render(input, this.#shape)
      return await this.#threads.render(this.#source, this.#values(input, this.#shape))
    } catch (error) {
      // Templates call `raise_exception` to reject a conversation, for example when roles do not alternate.
      const reason = error instanceof Error ? error.message : String(error)
      throw invalidRequest(`The model's chat template rejected this conversation: ${reason}`, param, {
        cause: error,
      })
    }
  }

  /**
   * Detects whether the template reads `content` as a string or as a list of parts: the wrong one renders to nothing.
   */
  #probe(): ContentShape {
    let cause: unknown
    for (const shape of ['string', 'parts'] as const) {
      try {
        if (this.#render({ turns: [USER], tools: [], thinking: false }, shape).includes(NEEDLE)) return shape
      } catch (error) {
        cause = error
      }
    }
    throw new Error('The chat template does not render a plain conversation', { cause })
  }

  #probeTools(): ToolForms | null {
    const declared = (parameters: TemplateValue): TemplateInput => ({
      turns: [USER],
      tools: [{ name: 'f', description: 'd', parameters }],
      thinking: false,
    })
    const called = (values: TemplateValue): TemplateInput => ({
      turns: [
        USER,
        { role: 'assistant', content: '', toolCalls: [{ id: CALL_ID, name: 'f', arguments: values }] },
        { role: 'tool', content: 'r', answers: { id: CALL_ID, name: 'f' } },
      ],
      tools: [],
      thinking: false,
    })
    const schema = {
      type: 'object',
      properties: { [NEEDLE]: { type: 'string', description: 'd' } },
      required: [NEEDLE],
    }
    const parameters = this.#formRendered(declared(NEEDLE), declared(schema))
    const values = this.#formRendered(called(NEEDLE), called({ [NEEDLE]: 'v' }))
    return parameters === null || values === null ? null : { parameters, arguments: values }
  }

  #formRendered(text: TemplateInput, structure: TemplateInput): ValueForm | null {
    for (const [form, input] of [['text', text] as const, ['structure', structure] as const]) {
      try {
        // The user turn contains one needle; a second one comes from the probed value.
        if (this.#render(input, this.#shape).split(NEEDLE).length > 2) return form
      } catch {
        // A template that iterates over a structure may fail on a text.
      }
    }
    return null
  }

  #render(input: TemplateInput, shape: ContentShape): string {
    return this.#template.render(this.#values(input, shape))
  }

  #values({ turns, tools, thinking }: TemplateInput, shape: ContentShape): Record<string, unknown> {
    const declared = tools.map(({ name, description, parameters }) => ({
      type: 'function',
      function: { name, ...(description === null ? {} : { description }), parameters },
    }))
    return {
      ...this.#tokens,
      messages: turns.map((turn) => toMessage(turn, shape)),
      ...(declared.length === 0 ? {} : { tools: declared }),
      add_generation_prompt: true,
      enable_thinking: thinking,
    }
  }
}

const NEEDLE = 'needle'
const USER: Turn = { role: 'user', content: NEEDLE }
/** Nine letters and digits: some templates refuse any other id. */
export const CALL_ID = 'a1b2c3d4e'

function toMessage({ role, content, reasoning, toolCalls = [], answers }: Turn, shape: ContentShape): object {
  const empty = content === '' && toolCalls.length > 0
  return {
    role,
    content: shape === 'string' ? content : empty ? [] : [{ type: 'text', text: content }],
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
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
