import type { ServedModel } from '../inference/catalog/registry.ts'
import { GREEDY } from '../inference/contract/greedy.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import type { Branch } from '../inference/contract/work.ts'
import { nameOf, type Param, pathOf } from '../lib/param.ts'
import type { MediaRequest } from '../media/media-request.ts'
import type { MediaTrace } from '../media/media-trace.ts'
import type { PromptStyle } from './prompt/prompt.ts'
import { type AskedTokens, MeasuredPrompt, outputBudget } from './prompt/token-budget.ts'
import type { ReplySpec } from './reply/reply-spec.ts'
import type { Deadline } from './request/deadline.ts'
import type { ReplyOptions } from './request/reply-options.ts'

export interface Caller {
  readonly model: ServedModel
  readonly organisation: string
  /** Whether nobody waits for the reply: it may take long, because others come first. */
  readonly isBackground?: boolean
  /** Follows the media of the request; may be left out. */
  readonly trace?: MediaTrace | undefined
  /** Gets the keywords of the request's schemas that have no effect, before the engine gets the work; may be left out. */
  readonly onIgnored?: ((keywords: readonly string[]) => void) | undefined
}

/** What every use case needs beside its request. */
export interface Call extends Caller {
  readonly style: PromptStyle
  readonly deadline: Deadline
  /** That of the deadline. */
  readonly signal: AbortSignal
  /** Loads the media of the request. */
  readonly media: MediaRequest
  /** The originals of the media. Dispose of it when they have been decoded; it ends with the call at the latest. */
  readonly held: DisposableStack
  /** Receives the number of a reply's annotations that were dropped. */
  dropped(count: number): void
  /** An error as the request names its parameters. */
  named(error: unknown): unknown
}

interface BranchSource {
  /** What the engine names in errors about the branch. */
  readonly param: Param
  /** What other branches have in common with it. */
  readonly prefix?: MeasuredPrompt
  readonly suffix: readonly PromptPart[]
  readonly spec: ReplySpec
  readonly asked: AskedTokens & Partial<Pick<ReplyOptions, 'sampling' | 'topLogProbs'>> & { readonly n?: number }
}

/**
 * The engine's work for the replies to one prompt, which are greedy by default.
 * @throws ApiError 400 when the prompt and the tokens that are asked for exceed the context.
 */
export async function branchOf(
  { param, prefix, suffix, spec, asked }: BranchSource,
  call: Pick<Call, 'model' | 'organisation' | 'signal'>,
): Promise<Branch & { readonly maxTokens: number }> {
  const own = new MeasuredPrompt(suffix, call)
  const maxTokens = await outputBudget(prefix === undefined ? [own] : [prefix, own], asked, call.model, param)
  call.signal.throwIfAborted()
  const { n = 1, sampling = GREEDY, topLogProbs = null } = asked
  const rated = topLogProbs === null ? {} : { topLogProbs }
  return { param: nameOf(pathOf(param))!, suffix, n, sampling, ...rated, ...spec.bounds(maxTokens), maxTokens }
}
