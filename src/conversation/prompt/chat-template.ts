import { Template } from '@huggingface/jinja'
import type { ModelInfo } from '../../inference/engine.ts'
import { invalidRequest } from '../../lib/errors.ts'
import { PLAIN } from '../../templates/built-in.ts'
import { type SpecialTokens, type TemplateInput, templateVariables } from '../../templates/conversation.ts'
import { readTraits, type TemplateTraits, type ToolForms } from '../../templates/traits.ts'
import type { TemplateThreads } from './template-threads.ts'

export type { TemplateInput, TemplateValue, Turn } from '../../templates/conversation.ts'
export type { ToolForms, ValueForm } from '../../templates/traits.ts'

/** Conversations with more turns are rendered in a thread. This many take about ten milliseconds. */
const MOST_TURNS_AT_ONCE = 256

/** A model's chat template. */
export class ChatTemplate {
  readonly #source: string
  readonly #template: Template
  readonly #threads: TemplateThreads | null
  readonly #tokens: SpecialTokens
  readonly #traits: TemplateTraits

  /**
   * @param threads render long conversations; null to render them on the event loop.
   * @throws Error when the template is invalid, or does not render a plain conversation.
   */
  constructor(info: Pick<ModelInfo, 'chatTemplate' | 'bosToken' | 'eosToken'>, threads: TemplateThreads | null = null) {
    this.#source = info.chatTemplate ?? PLAIN
    this.#template = new Template(this.#source)
    this.#threads = threads
    this.#tokens = info
    this.#traits = readTraits((variables) => this.#template.render(variables))
  }

  /** Null when the template does not support tools. */
  get toolForms(): ToolForms | null {
    return this.#traits.toolForms
  }

  /**
   * Renders the conversation as text that ends where the model's reply begins.
   * @throws ApiError 400 naming `param` when the template rejects the conversation.
   */
  async render(input: TemplateInput, param: string): Promise<string> {
    const variables = templateVariables(input, { ...this.#traits, tokens: this.#tokens })
    try {
      if (this.#threads === null || input.turns.length <= MOST_TURNS_AT_ONCE) return this.#template.render(variables)
      return await this.#threads.render(this.#source, variables)
    } catch (error) {
      // Templates call `raise_exception` to reject a conversation, for example when roles do not alternate.
      const reason = error instanceof Error ? error.message : String(error)
      throw invalidRequest(`The model's chat template rejected this conversation: ${reason}`, param, {
        cause: error,
      })
    }
  }
}
