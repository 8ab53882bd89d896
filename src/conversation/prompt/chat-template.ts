import type { ModelInfo } from '../../inference/contract/engine.ts'
import { ApiError, invalidRequest } from '../../lib/errors/errors.ts'
import { ProcessEnded } from '../../lib/guarded/guarded-process.ts'
import { PLAIN } from '../../templates/built-in.ts'
import { type SpecialTokens, type TemplateInput, templateVariables } from '../../templates/conversation.ts'
import { JinjaTemplate } from '../../templates/jinja/template.ts'
import { readTraits, type TemplateTraits, type ToolForms } from '../../templates/traits.ts'
import type { TemplateProcesses } from './template-processes.ts'

export type { Effort, TemplateInput, TemplateValue, Turn } from '../../templates/conversation.ts'
export type { ToolForms, ValueForm } from '../../templates/traits.ts'

/** Conversations with more turns are long. This many turns take about ten milliseconds. */
const MOST_TURNS_AT_ONCE = 256

/** A model's chat template. */
export class ChatTemplate {
  readonly #source: string
  /** Null for a template that does not run in this process. */
  readonly #template: JinjaTemplate | null
  readonly #processes: TemplateProcesses | null
  readonly #tokens: SpecialTokens
  readonly #traits: TemplateTraits

  /**
   * @param processes run third parties' templates, and render long conversations; null to render everything here.
   * @throws Error when the template is invalid, or does not render a plain conversation.
   */
  constructor(
    info: Pick<ModelInfo, 'chatTemplate' | 'templateTraits' | 'bosToken' | 'eosToken'>,
    processes: TemplateProcesses | null = null,
  ) {
    this.#source = info.chatTemplate ?? PLAIN
    this.#processes = processes
    this.#tokens = info
    if (processes !== null && info.templateTraits !== undefined) {
      this.#template = null
      this.#traits = info.templateTraits
      processes.warmUp()
    } else {
      const template = new JinjaTemplate(this.#source)
      this.#template = template
      this.#traits = readTraits((variables) => template.render(variables))
    }
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
    const isLong = input.turns.length > MOST_TURNS_AT_ONCE
    try {
      if (this.#processes === null || (this.#template !== null && !isLong)) return this.#template!.render(variables)
      return await this.#processes.render(this.#source, variables, isLong)
    } catch (error) {
      if (error instanceof ProcessEnded) {
        throw invalidRequest(`The model's chat template cannot render this conversation: ${error.message}`, param, {
          cause: error,
        })
      }
      // The server is at fault: it has no process, for example.
      if (error instanceof ApiError) throw error
      // Templates call `raise_exception` to reject a conversation, for example when roles do not alternate.
      const reason = error instanceof Error ? error.message : String(error)
      throw invalidRequest(`The model's chat template rejected this conversation: ${reason}`, param, {
        cause: error,
      })
    }
  }
}
