import { invalidRequest } from '../../lib/errors/errors.ts'
import type { ConstraintMode } from '../../models/card.ts'
import type { Constraint } from '../contract/constraint.ts'
import type { PromptPart } from '../contract/parts.ts'
import { notSupported } from './constraint-writer.ts'
import type { AdmittedBranch, CompletionRun, Exchange, ReadPrompt } from './exchange.ts'
import { type PromptPiece, readMessages } from './openai/chat-messages.ts'
import { estimatedTokens } from './openai/estimate.ts'
import type { ChatQuestion } from './openai/openai-wire.ts'
import { pictureKey } from './prompt.ts'
import { saltOf } from './salt.ts'
import { seededFor } from './seeded.ts'
import { TextCompletion } from './text-completion.ts'
import type { Wire } from './wire/wire.ts'

export interface TextPrompt extends ReadPrompt {
  readonly pieces: readonly PromptPiece[]
}

export interface TextExchangeParts {
  readonly wire: Wire<ChatQuestion>
  /** How the form of the reply is requested from the servers. */
  readonly constraints: ConstraintMode
  /** Whether the model can think. */
  readonly thinks: boolean
  /** Side in pixels of the square that one token is assumed to cover; null for a model that takes no pictures. */
  readonly pixelsPerToken: number | null
}

/** Number of leading characters of a prompt without pictures that choose its server. */
const KEY_CHARACTERS = 1024
/** Maximum tokens of a thought for each reasoning effort. */
const EFFORTS = [
  ['low', 1024],
  ['medium', 2048],
] as const

/** For servers that take messages and apply their own template; completions arrive as text. */
export class TextExchange implements Exchange<TextPrompt> {
  readonly wire: Wire<ChatQuestion>
  readonly #parts: TextExchangeParts

  constructor(parts: TextExchangeParts) {
    this.wire = parts.wire
    this.#parts = parts
  }

  async read(prompts: readonly (readonly PromptPart[])[], params: readonly string[]): Promise<readonly TextPrompt[]> {
    return prompts.map((parts, index) => {
      const pieces = parts.flatMap((part) => this.#piecesOf(part, params[index]!))
      return { pieces, ...estimatedTokens(pieces, this.#parts.pixelsPerToken) }
    })
  }

  join(first: TextPrompt, second: TextPrompt): { readonly prompt: TextPrompt; readonly countedTokens: number } {
    const promptTokens = first.promptTokens + second.promptTokens
    const imageTokens = first.imageTokens + second.imageTokens
    const prompt = { pieces: [...first.pieces, ...second.pieces], promptTokens, imageTokens }
    return { prompt, countedTokens: promptTokens }
  }

  beginningOf({ pieces }: TextPrompt, organisation: string): string {
    const picture = pieces.find((piece) => piece.type === 'image')
    if (picture !== undefined) return pictureKey(picture.image, saltOf(organisation))
    const text = pieces.map((piece) => (piece.type === 'text' ? piece.text : '')).join('')
    return text.slice(0, KEY_CHARACTERS)
  }

  enforced(constraint: Constraint): Constraint | null {
    const { constraints } = this.#parts
    if (constraints === 'vllm' || constraints === 'llama-server') return constraint
    if (constraints === 'json_schema' && constraint.type === 'json_schema') return constraint
    if (constraint.advisory) return null
    throw notSupported(constraint, 'the servers of this model cannot be held to it')
  }

  /** Servers handle several completions of one request differently, so each completion is a request of its own. */
  async run(branch: AdmittedBranch<TextPrompt>, run: CompletionRun): Promise<void> {
    await Promise.all(Array.from({ length: branch.n }, (_, index) => this.#complete(branch, index, run)))
  }

  async #complete(branch: AdmittedBranch<TextPrompt>, index: number, run: CompletionRun): Promise<void> {
    const { grammar, constraint, thought, maxTokens, sampling, prompt, topLogProbs = null } = branch
    const completion = new TextCompletion(
      { branch: branch.index, index },
      { thought, check: grammar?.graph ?? null, isJson: grammar !== null && constraint?.type === 'json_schema' },
      run.emit,
    )
    if (maxTokens === 0) {
      completion.finish('length')
      return
    }
    const fields = { ...this.#constraintFields(branch), ...this.#thoughtFields(branch) }
    const question = {
      ...{ messages: readMessages(prompt.pieces), maxTokens, fields, topLogProbs },
      sampling: seededFor(index, sampling),
    }
    await run.ask({
      completions: [completion],
      isLast: true,
      send: (url, call) => this.wire.complete(url, question, call),
      add: (one, piece) => {
        if (piece.type !== 'text') return
        if (piece.fingerprint !== undefined) run.identified(piece.fingerprint)
        one.add(piece)
      },
      note: ({ promptTokens, cachedTokens, completionTokens, reasoningTokens = null }) => {
        const { usage } = run
        usage.promptTokens = promptTokens
        usage.imageTokens = Math.min(usage.imageTokens, promptTokens)
        usage.cachedTokens = Math.max(usage.cachedTokens, cachedTokens ?? 0)
        if (completionTokens !== undefined) completion.counted(completionTokens, reasoningTokens)
      },
    })
  }

  #constraintFields({ grammar, constraint }: AdmittedBranch<TextPrompt>): object {
    if (grammar === null) return {}
    switch (this.#parts.constraints) {
      case 'vllm':
        return { structured_outputs: { grammar: grammar.ebnf } }
      case 'llama-server':
        return { grammar: grammar.gbnf }
      default: {
        if (constraint?.type !== 'json_schema') return {}
        const { schema } = constraint
        return { response_format: { type: 'json_schema', json_schema: { name: 'reply', schema, strict: true } } }
      }
    }
  }

  /** Uses the names that most servers know; a model that cannot think gets none. */
  #thoughtFields({ thought }: AdmittedBranch<TextPrompt>): object {
    if (!this.#parts.thinks) return {}
    const template = { chat_template_kwargs: { enable_thinking: thought !== undefined } }
    if (thought === undefined) return template
    const [effort] = EFFORTS.find(([, most]) => thought.budget <= most) ?? ['high']
    return { ...template, reasoning_effort: effort }
  }

  #piecesOf(part: PromptPart, param: string): PromptPiece[] {
    if (part.type === 'text') return [part]
    if (part.type === 'audio') throw invalidRequest('This model does not take audio.', param)
    if (this.#parts.pixelsPerToken === null) throw invalidRequest('This model does not take images.', param)
    return part.type === 'image' ? [part] : part.frames.map((image) => ({ type: 'image', image }))
  }
}
