/** What Ollama's clients read. Nothing here is in `openapi.json`: the paths exist only where the setting is on. */

export interface LogProbBody {
  readonly token: string
  readonly logprob: number
  readonly bytes: readonly number[]
  readonly top_logprobs?: readonly Omit<LogProbBody, 'top_logprobs'>[]
}

export interface ToolCallBody {
  readonly id: string
  readonly function: { readonly index: number; readonly name: string; readonly arguments: unknown }
}

/** What one line, or the whole reply, holds. */
export interface SaidBody {
  readonly text: string
  readonly thinking: string
  readonly toolCalls: readonly ToolCallBody[]
}

interface Heading {
  readonly model: string
  readonly created_at: string
  readonly logprobs?: readonly LogProbBody[]
}

/** The end of a reply. Durations are nanoseconds. */
export interface EndBody {
  readonly done: true
  readonly done_reason: 'stop' | 'length' | 'load'
  readonly total_duration?: number
  readonly load_duration?: number
  readonly prompt_eval_count?: number
  readonly prompt_eval_duration?: number
  readonly eval_count?: number
  readonly eval_duration?: number
}

export type LineBody = Heading & ({ readonly done: false } | EndBody)

export interface ModelDetailsBody {
  readonly parent_model: string
  readonly format: string
  readonly family: string
  readonly families: readonly string[]
  readonly parameter_size: string
  readonly quantization_level: string
}

export interface ModelBody {
  readonly name: string
  readonly model: string
  readonly modified_at: string
  readonly size: number
  readonly digest: string
  readonly details: ModelDetailsBody
}

export interface ShownModelBody {
  readonly license: string
  readonly modelfile: string
  readonly parameters: string
  readonly template: string
  readonly details: ModelDetailsBody
  readonly model_info: Readonly<Record<string, unknown>>
  readonly capabilities: readonly string[]
  readonly modified_at: string
}
