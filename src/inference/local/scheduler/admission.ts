import { endlessProblem, lengthProblem } from '../../contract/context-length.ts'
import type { PromptUsage } from '../../contract/generation.ts'
import type { Sampling, Thought, Work } from '../../contract/work.ts'
import { FailureError } from '../failure.ts'
import type { CompiledConstraint } from '../sampling/constraint-compiler.ts'
import type { PromptChunk, TokenisedPrompt } from '../tokens/prompt-tokens.ts'
import type { LoadedModel } from './loaded-model.ts'

/** Work that fits the model: tokenised, and cut so that the last token of every branch is still to be decoded. */
export interface AdmittedWork {
  /** What all branches share. */
  readonly prefix: readonly PromptChunk[]
  readonly branches: readonly AdmittedBranch[]
  readonly usage: readonly PromptUsage[]
  /** Frees the native memory of media. */
  close(): void
}

export interface AdmittedBranch {
  /** The branch's own prompt after the prefix, without its last token. */
  readonly suffix: readonly PromptChunk[]
  readonly suffixTokens: number
  /** Last token of the prompt: decoding it yields the logits for the first token of each completion. */
  readonly lastToken: number
  readonly n: number
  readonly maxTokens: number
  readonly sampling: Sampling
  readonly constraint: CompiledConstraint | null
  readonly thought: Thought | null
  /** How many of the likeliest tokens are reported beside each token; null where nobody asks for log-probabilities. */
  readonly topLogProbs: number | null
}

/** The input that errors name when the caller gives none. */
export const DEFAULT_PARAM = 'messages'

/**
 * Tokenises the work and checks that it fits; the scheduler calls it before it queues anything.
 * @param options `sizesOnly`: its pictures have no pixels, so that nothing of it can be computed.
 * @throws FailureError when a branch does not fit the context window or the model does not support a part of it.
 */
export function admit(loaded: LoadedModel, work: Work, { sizesOnly = false } = {}): AdmittedWork {
  const prompts: TokenisedPrompt[] = []
  const read = (parts: Work['prefix'], param: string, before?: TokenisedPrompt) => {
    const { reader } = loaded
    const prompt = sizesOnly
      ? reader.size(parts, work.organisation, param, before)
      : reader.read(parts, work.organisation, param, before)
    prompts.push(prompt)
    checkMedia(prompt.chunks, loaded.context.mediaRows, param)
    return prompt
  }
  try {
    const params = work.branches.map((branch) => branch.param ?? DEFAULT_PARAM)
    const prefix = read(work.prefix, params[0] ?? DEFAULT_PARAM)
    const suffixes = work.branches.map((branch, index) => read(branch.suffix, params[index]!, prefix))
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
      usage.push({
        promptTokens,
        imageTokens: prefix.imageTokens + suffix.imageTokens,
        audioTokens: prefix.audioTokens + suffix.audioTokens,
        // The first branch is charged for the prefill that the others share.
        cachedTokens: index === 0 ? 0 : sharedTokens,
      })
      const own: PromptChunk[] = shared === null ? [] : [{ type: 'text', tokens: Int32Array.of(shared.last) }]
      const { rest, last } = splitLast([...own, ...suffix.chunks], param)
      return {
        suffix: rest,
        suffixTokens: suffix.tokens - (borrow ? 0 : 1),
        lastToken: last,
        n: branch.n,
        maxTokens: branch.maxTokens ?? loaded.info.contextTokens - promptTokens,
        sampling: branch.sampling,
        constraint: branch.constraint === undefined ? null : loaded.constraints.prepared(branch.constraint),
        thought: branch.thought ?? null,
        topLogProbs: branch.topLogProbs ?? null,
      }
    })
    const close = () => {
      for (const prompt of prompts) prompt.close()
    }
    return { prefix: shared?.rest ?? prefix.chunks, branches, usage, close }
  } catch (error) {
    for (const prompt of prompts) prompt.close()
    throw error
  }
}

/** @throws FailureError for media whose tokens attend to each other, so that one call must decode them, and do not fit one. */
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

function checkLength(promptTokens: number, maxTokens: number | null, contextTokens: number, param: string): void {
  const message = lengthProblem(promptTokens, maxTokens, contextTokens)
  if (message !== null) throw new FailureError({ kind: 'invalid', message, param })
}

/** For a prompt whose tokenisation stopped early because it is too long. */
export function contextExceeded(contextTokens: number, param = DEFAULT_PARAM): FailureError {
  return new FailureError({ kind: 'invalid', message: endlessProblem(contextTokens), param })
}

function splitLast(chunks: readonly PromptChunk[], param: string): { rest: readonly PromptChunk[]; last: number } {
  const kept = chunks.filter((chunk) => chunk.type === 'media' || chunk.tokens.length > 0)
  const chunk = kept.pop()
  if (chunk === undefined) throw new FailureError({ kind: 'invalid', message: 'The prompt is empty.', param })
  if (chunk.type === 'media') {
    throw new FailureError({ kind: 'invalid', message: 'The prompt must end with text.', param })
  }
  const tokens = chunk.tokens.subarray(0, -1)
  return {
    rest: tokens.length === 0 ? kept : [...kept, { type: 'text', tokens }],
    last: chunk.tokens[chunk.tokens.length - 1]!,
  }
}
