/** What the page sends and receives, as far as it looks at it. docs/contributing/contract.md has the rest. */

export interface Model {
  readonly id: string
  readonly name: string
  readonly capabilities: readonly string[]
  readonly modalities: readonly string[]
  readonly output_formats: readonly string[]
  readonly reasoning: { readonly supported: boolean }
  readonly max_context_tokens: number
  readonly max_output_tokens: number
  readonly description?: string
}

export interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  readonly prompt_tokens_details?: { readonly audio_tokens?: number; readonly cached_tokens?: number } | null
}

export interface ToolCall {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

export interface ErrorBody {
  readonly message: string
  readonly type: string | null
  readonly param: string | null
  readonly code: string | null
}

export type Part =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
  | { readonly type: 'video_url'; readonly video_url: { readonly url: string } }
  | { readonly type: 'image_file_id'; readonly image_file_id: { readonly file_id: string } }
  | { readonly type: 'video_file_id'; readonly video_file_id: { readonly file_id: string } }
  | { readonly type: 'audio_file_id'; readonly audio_file_id: { readonly file_id: string } }
  | { readonly type: 'input_audio'; readonly input_audio: { readonly data: string; readonly format: string } }

export interface Message {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string | readonly Part[] | null
  readonly tool_calls?: readonly ToolCall[]
  readonly reasoning_content?: string
}

export interface ChatChunk {
  readonly choices?: readonly {
    readonly index: number
    readonly delta?: {
      readonly content?: string | null
      readonly reasoning_content?: string | null
      readonly tool_calls?: readonly {
        readonly index: number
        readonly id?: string | null
        readonly function?: { readonly name?: string; readonly arguments?: string } | null
      }[]
    } | null
    readonly finish_reason?: string | null
  }[]
  readonly usage?: Usage | null
  readonly error?: ErrorBody
}
