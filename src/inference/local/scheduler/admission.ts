import type { ErrorCode } from '../../../lib/errors/error-codes.ts'
import { lengthProblem, promptProblem } from '../../contract/context-length.ts'
import type { PromptUsage } from '../../contract/generation.ts'
import type { Sampling, Thought, Work } from '../../contract/work.ts'
import { FailureError } from '../failure.ts'
import type { Adapter } from '../native/adapter.ts'
import type { CompiledConstraint } from '../sampling/constraint-compiler.ts'
import type { PromptChunk, TokenisedPrompt } from '../tokens/prompt-tokens.ts'
import { joined } from '../tokens/texts.ts'
import type { LoadedModel } from './loaded-model.ts'

/** Work that fits the model, tokenised. Each branch keeps its last token to decode. */
export interface AdmittedWork {
  /** The prefix that all branches share. */
  readonly prefix: readonly PromptChunk[]
  readonly branches: readonly AdmittedBranch[]
  readonly usage: readonly PromptUsage[]
  /** The adapter; null for the model alone. */
  readonly adapter: Adapter | null
  /** Frees the native memory of media. */
  close(): void
}

export interface AdmittedBranch {
  /** The branch's own prompt after the prefix, without its last token. */
  readonly suffix: readonly PromptChunk[]
  /** Last token of the prompt: decoding it yields the logits for the first token of each completion. */
  readonly lastToken: number
  readonly n: number
  readonly maxTokens: number
  readonly sampling: Sampling
  readonly constraint: CompiledConstraint | null
  readonly thought: Thought | null
  /** Number of top log-probabilities per token; null if the request asks for no log-probabilities. */
  readonly topLogProbs: number | null
  readonly isContinued: boolean
}

/** Default of the input that errors name. */
export const DEFAULT_PARAM = 'messages'

/**
 * Tokenises the work and checks that it fits; the scheduler calls it before it queues anything.
 * @param options `sizesOnly`: its pictures have no pixels, so it cannot be computed.
 * @throws FailureError when a branch does not fit the context window or the model does not support a part of it.
 */
export function admit(loaded: LoadedModel, work: Work, { sizesOnly = false } = {}): AdmittedWork {
  const prompts = new Prompts(loaded, work, sizesOnly)
  try {
    const params = work.branches.map((branch) => branch.param ?? DEFAULT_PARAM)
    const prefix = prompts.read(work.prefix, params[0] ?? DEFAULT_PARAM)
    const suffixes = work.branches.map((branch, index) => prompts.read(branch.suffix, params[index]!, prefix))
    // Each branch needs a token of its own to decode. If one has no suffix, all take the last token of the prefix.
    const borrow = suffixes.some((suffix) => suffix.tokens === 0)
    const shared = borrow ? splitLast(prefix.chunks, params[0]!) : null
    const sharedTokens = prefix.tokens - (borrow ? 1 : 0)

    const usage: PromptUsage[] = []
    const branches = work.branches.map((branch, index): AdmittedBranch => {
      const param = params[index]!
      const suffix = suffixes[index]!
      const promptTokens = prefix.tokens + suffix.tokens
      checkLength(promptTokens, branch.maxTokens, loaded.info.contextTokens, param)
      // The first branch is charged for the prefill that the others share.
      usage.push(usageOf(prefix, suffix, index === 0 ? 0 : sharedTokens))
      const own: PromptChunk[] = shared === null ? [] : [{ type: 'text', tokens: shared.last }]
      const { rest, last } = splitLast([...own, ...suffix.chunks], param)
      return {
        suffix: rest,
        lastToken: last[0]!,
        n: branch.n,
        maxTokens: branch.maxTokens ?? loaded.info.contextTokens - promptTokens,
        sampling: branch.sampling,
        constraint: branch.constraint === undefined ? null : loaded.constraints.prepared(branch.constraint),
        thought: branch.thought ?? null,
        topLogProbs: branch.topLogProbs ?? null,
        isContinued: branch.isContinued ?? false,
      }
    })
    const adapter = loaded.adapterOf(work)
    return { prefix: shared?.rest ?? prefix.chunks, branches, usage, adapter, close: () => prompts.close() }
  } catch (error) {
    prompts.close()
    throw error
  }
}

type PromptOwner = Pick<Work, 'organisation' | 'isTransient'>

/** The prompts of a request. It owns the native memory of their media. */
export class Prompts {
  readonly #loaded: LoadedModel
  readonly #work: PromptOwner
  readonly #sizesOnly: boolean
  readonly #read: TokenisedPrompt[] = []

  /** @param sizesOnly whether pictures have no pixels, so the prompts cannot be computed. */
  constructor(loaded: LoadedModel, work: PromptOwner, sizesOnly = false) {
    this.#loaded = loaded
    this.#work = work
    this.#sizesOnly = sizesOnly
  }

  /**
   * Tokenises a prompt. @param before the prompt that it continues. @throws FailureError when the model does not support a
   * part of it.
   */
  read(parts: Work['prefix'], param: string, before?: TokenisedPrompt): TokenisedPrompt {
    const { reader, context } = this.#loaded
    const { organisation, isTransient } = this.#work
    const prompt = this.#sizesOnly
      ? reader.size(parts, organisation, param, before)
      : reader.read(parts, organisation, param, before, isTransient)
    this.#read.push(prompt)
    checkMedia(prompt.chunks, context.mediaRows, param)
    return prompt
  }

  close(): void {
    for (const prompt of this.#read) prompt.close()
  }
}

export function usageOf(prefix: TokenisedPrompt, suffix: TokenisedPrompt, cachedTokens: number): PromptUsage {
  return {
    promptTokens: prefix.tokens + suffix.tokens,
    imageTokens: prefix.imageTokens + suffix.imageTokens,
    audioTokens: prefix.audioTokens + suffix.audioTokens,
    cachedTokens,
  }
}

/**
 * @throws FailureError for media that one call must decode, because their tokens attend to each other, and that do not fit.
 */
export function checkMedia(chunks: readonly PromptChunk[], capacity: number, param: string): void {
  for (const chunk of chunks) {
    if (chunk.type === 'text' || chunk.encodable.causal || chunk.encodable.length <= capacity) continue
    throw new FailureError({
      kind: 'invalid',
      message: `An image of ${chunk.encodable.length} tokens is larger than the ${capacity} that this model can read at once.`,
      param,
    })
  }
}

/** @throws FailureError for a prompt that leaves no room for its completion. */
export function checkLength(
  promptTokens: number,
  maxTokens: number | null,
  contextTokens: number,
  param: string,
): void {
  const message = lengthProblem(promptTokens, maxTokens, contextTokens)
  if (message !== null) throw invalid(message, param, 'context_length_exceeded')
}

/** For a prompt whose tokenisation stopped early because it is too long. */
export function contextExceeded(contextTokens: number, param = DEFAULT_PARAM): FailureError {
  return invalid(promptProblem(Number.POSITIVE_INFINITY, contextTokens), param, 'context_length_exceeded')
}

export function invalid(message: string, param: string, code: ErrorCode | null = null): FailureError {
  return new FailureError({ kind: 'invalid', message, param, code })
}

/** Splits off the last token. @throws FailureError when the prompt ends with media. */
export function splitLast(
  chunks: readonly PromptChunk[],
  param: string,
): { rest: readonly PromptChunk[]; last: Int32Array } {
  const { rest, text } = splitText(chunks, param)
  const before: PromptChunk[] = text.length === 1 ? [] : [{ type: 'text', tokens: text.subarray(0, -1) }]
  return { rest: [...rest, ...before], last: text.subarray(-1) }
}

/** Splits off all text at the end. @throws FailureError when the prompt ends with media. */
export function splitText(
  chunks: readonly PromptChunk[],
  param: string,
): { rest: readonly PromptChunk[]; text: Int32Array } {
  const kept = chunks.filter((chunk) => chunk.type === 'media' || chunk.tokens.length > 0)
  const start = kept.findLastIndex(({ type }) => type === 'media') + 1
  const text = textOf(kept.slice(start))
  if (kept.length === 0) throw invalid('The prompt is empty.', param)
  if (text.length === 0) throw invalid('The prompt must end with text.', param)
  return { rest: kept.slice(0, start), text }
}

/** All text tokens. */
export function textOf(chunks: readonly PromptChunk[]): Int32Array {
  return joined(chunks.flatMap((chunk) => (chunk.type === 'text' ? [chunk.tokens] : [])))
}
