import { Template } from '@huggingface/jinja'
import { invalidRequest } from '../errors.ts'
import type { ModelInfo } from '../inference/engine.ts'

export interface Turn {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** For weights that carry no template. */
export const CHATML = `{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}`

type ContentShape = 'string' | 'parts'

/** The model's own chat template, ready to render. */
export class ChatTemplate {
  readonly #template: Template
  readonly #tokens: { readonly bos_token: string; readonly eos_token: string }
  readonly #shape: ContentShape

  /** @throws Error when the template cannot be read, or renders nothing of a plain conversation. */
  constructor(info: Pick<ModelInfo, 'chatTemplate' | 'bosToken' | 'eosToken'>) {
    this.#template = new Template(info.chatTemplate ?? CHATML)
    this.#tokens = { bos_token: info.bosToken, eos_token: info.eosToken }
    this.#shape = this.#probe()
  }

  /**
   * The conversation as text, ending where the model's reply begins.
   * @throws ApiError 400 naming `param` when the template refuses the conversation.
   */
  render(turns: readonly Turn[], param: string): string {
    try {
      return this.#render(turns, this.#shape)
    } catch (error) {
      // Templates speak their refusals, such as roles that do not alternate, through `raise_exception`.
      const reason = error instanceof Error ? error.message : String(error)
      throw invalidRequest(`The model's chat template does not take this conversation: ${reason}`, param, {
        cause: error,
      })
    }
  }

  /** Some templates read `content` as a string, some as a list of parts; the wrong one renders to nothing. */
  #probe(): ContentShape {
    const needle = 'needle'
    let cause: unknown
    for (const shape of ['string', 'parts'] as const) {
      try {
        if (this.#render([{ role: 'user', content: needle }], shape).includes(needle)) return shape
      } catch (error) {
        cause = error
      }
    }
    throw new Error('The chat template does not render a plain conversation', { cause })
  }

  #render(turns: readonly Turn[], shape: ContentShape): string {
    const messages = turns.map(({ role, content }) => ({
      role,
      content: shape === 'string' ? content : [{ type: 'text', text: content }],
    }))
    return this.#template.render({ ...this.#tokens, messages, add_generation_prompt: true, enable_thinking: false })
  }
}
