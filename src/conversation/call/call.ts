import type { ServedModel } from '../../inference/catalog/registry.ts'
import { GREEDY } from '../../inference/contract/greedy.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import type { Priority } from '../../inference/contract/priority.ts'
import type { Branch } from '../../inference/contract/work.ts'
import { nameOf, type Param, pathOf } from '../../lib/errors/param.ts'
import type { MediaRequest } from '../../media/media-request.ts'
import type { MediaTrace } from '../../media/media-trace.ts'
import type { PromptStyle } from '../prompt/prompt.ts'
import { type AskedTokens, MeasuredPrompt, outputBudget } from '../prompt/token-budget.ts'
import type { ReplySpec } from '../reply/reply-spec.ts'
import type { Deadline } from '../request/deadline.ts'
import type { ReplyOptions } from '../request/reply-options.ts'

export interface Caller {
  readonly model: ServedModel
  readonly organisation: string
  /** A reply in the background may take long: other requests come first. */
  readonly priority?: Priority
  /** Whether later requests will hardly be about its media, so that nothing of it is cached. */
  readonly isTransient?: boolean
  /** Records the request's media in its trace. */
  readonly trace?: MediaTrace | undefined
  /** Receives the keywords of the request's schemas that have no effect, before the engine gets the work. */
  readonly onIgnored?: ((keywords: readonly string[]) => void) | undefined
}

/** What every use case needs in addition to its request. */
export interface Call extends Caller {
  readonly style: PromptStyle
  readonly deadline: Deadline
  /** The deadline's signal. */
  readonly signal: AbortSignal
  /** Loads the media of the request. */
  readonly media: MediaRequest
  /** The secret that seals what clients keep for the server. @throws ApiError 503 when it cannot be read. */
  secret(): Promise<string>
  /** The originals of the media. Dispose of it when they have been decoded; it ends with the call at the latest. */
  readonly held: DisposableStack
  /** Receives the number of a reply's annotations that were dropped. */
  dropped(count: number): void
  /** Rewrites an error to use the request's own parameter names. */
  named(error: unknown): unknown
}

interface BranchSource {
  /** The parameter that the engine's errors about the branch name. */
  readonly param: Param
  /** The part of the prompt that it shares with other branches. */
  readonly prefix?: MeasuredPrompt
  readonly suffix: readonly PromptPart[]
  readonly spec: ReplySpec
  readonly asked: AskedTokens &
    Partial<Pick<ReplyOptions, 'sampling' | 'topLogProbs'>> &
    Partial<Pick<Branch, 'n' | 'isContinued'>>
}

/**
 * Builds the engine's work for the replies to one prompt. Sampling is greedy by default.
 * @throws ApiError 400 when the prompt and the requested tokens exceed the context.
 */
export async function branchOf(
  { param, prefix, suffix, spec, asked }: BranchSource,
  call: Pick<Call, 'model' | 'organisation' | 'signal'>,
): Promise<Branch & { readonly maxTokens: number }> {
  const own = new MeasuredPrompt(suffix, call)
  const maxTokens = await outputBudget(prefix === undefined ? [own] : [prefix, own], asked, call.model, param)
  call.signal.throwIfAborted()
  const { n = 1, sampling = GREEDY, topLogProbs = null, isContinued } = asked
  const further = { ...(topLogProbs === null ? {} : { topLogProbs }), ...(isContinued ? { isContinued } : {}) }
  return { param: nameOf(pathOf(param))!, suffix, n, sampling, ...further, ...spec.bounds(maxTokens), maxTokens }
}
