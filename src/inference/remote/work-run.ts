import { type ApiError, internalError, invalidRequest, modelOverloaded, tryAgainIn } from '../../lib/errors/errors.ts'
import type { Work } from '../contract/work.ts'
import { notSupported } from './constraint-writer.ts'
import type { AdmittedBranch, Asked, BranchRun, LiveUsage, ReadPrompt, RunningCompletion } from './exchange.ts'
import type { ModelServer } from './servers/server.ts'
import type { Place, Servers } from './servers/servers.ts'
import { type CachedEvent, type FailureKind, type PieceEvent, ServerFailure } from './wire/wire.ts'

export interface WorkRunParts {
  readonly servers: Servers
  warn(message: string): void
}

export interface AdmittedWork<Prompt extends ReadPrompt>
  extends Pick<BranchRun, 'organisation' | 'cacheSalt' | 'whole'>,
    Pick<Work, 'priority' | 'trace'> {
  /** Key shared with other work that should be on the same server. */
  readonly key: string
  readonly branches: readonly AdmittedBranch<Prompt>[]
  readonly usage: readonly LiveUsage[]
  /** Aborts the work. */
  readonly signal: AbortSignal
  perform(branch: AdmittedBranch<Prompt>, run: BranchRun): Promise<void>
  /** Receives the error of one of several failed branches. */
  failed(branch: AdmittedBranch<Prompt>, error: Error): void
  /** The error if the servers refuse to return log-probabilities. */
  unrated(): ApiError
  /** Called when a completion has got a place on a server. */
  placed(): void
}

/** Failures after which another server may succeed, as long as the first has sent nothing. */
export const RETRIED: readonly FailureKind[] = ['lost', 'busy', 'wrong']
const RETRY_SECONDS = 3

/** Runs the branches of one work on the servers. */
export class WorkRun<Prompt extends ReadPrompt> {
  readonly #parts: WorkRunParts
  readonly #work: AdmittedWork<Prompt>
  /** Resolves when the branches' shared prefix is in the server's caches. */
  readonly #cached = Promise.withResolvers<void>()

  constructor(parts: WorkRunParts, work: AdmittedWork<Prompt>) {
    this.#parts = parts
    this.#work = work
  }

  /**
   * The first branch computes the shared prefix. The others start once it is in the server's cache.
   * @throws ApiError if the only branch fails, or the signal's reason.
   */
  async run(): Promise<void> {
    const [first, ...others] = this.#work.branches
    const leading = this.#runGuarded(first!).finally(this.#cached.resolve)
    await Promise.race([this.#cached.promise, leading])
    await Promise.all([leading, ...others.map((branch) => this.#runGuarded(branch))])
  }

  /** The failure of one of several branches does not end the others. */
  async #runGuarded(branch: AdmittedBranch<Prompt>): Promise<void> {
    const { branches, organisation, cacheSalt, usage, whole, signal } = this.#work
    try {
      await this.#work.perform(branch, {
        organisation,
        cacheSalt,
        usage: usage[branch.index]!,
        whole,
        capacity: this.#parts.servers.capacity,
        ask: (asked) => this.#ask(branch, asked),
      })
    } catch (failure) {
      signal.throwIfAborted()
      const error = this.#errorOf(failure, branch)
      if (branches.length === 1) throw error
      this.#work.failed(branch, error)
    }
  }

  async #ask<Completion extends RunningCompletion>(
    branch: AdmittedBranch<Prompt>,
    asked: Asked<Completion>,
  ): Promise<void> {
    const { signal } = this.#work
    for (let avoid: ModelServer | undefined; ; ) {
      const place = await this.#place(asked.completions.length, avoid)
      let hasBegun = false
      const seen = (type: (CachedEvent | PieceEvent)['type']) => {
        if (branch.index === 0) this.#cached.resolve()
        hasBegun ||= type !== 'cached'
      }
      try {
        await this.#read(place.server, asked, seen)
        return
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof ServerFailure) || !RETRIED.includes(error.kind)) throw error
        void (error.kind === 'wrong' ? place.server.doubt() : place.server.check())
        if (hasBegun || avoid !== undefined) throw error
        this.#parts.warn(`${place.server.url} failed a request; trying once more: ${error.message}`)
        avoid = place.server
      } finally {
        place.release()
      }
    }
  }

  async #place(count: number, avoid: ModelServer | undefined): Promise<Place> {
    const { organisation, key, branches, priority, signal, trace, placed } = this.#work
    const { servers } = this.#parts
    const workCount = branches.reduce((sum, { n }) => sum + n, 0)
    const place = await servers.place({ organisation, key, count, workCount, priority, avoid }, signal)
    placed()
    trace?.started()
    return place
  }

  async #read<Completion extends RunningCompletion>(
    { url, lost }: ModelServer,
    { completions, isLast: endsAll, isMinor = false, send, add, note }: Asked<Completion>,
    seen: (type: (CachedEvent | PieceEvent)['type']) => void,
  ): Promise<void> {
    const signal = AbortSignal.any([this.#work.signal, lost])
    const traced = isMinor ? undefined : this.#work.trace?.asked(url)
    // The server's token counts arrive after the last token, and belong to the usage that the last `finish` reports.
    let last: () => void = () => {}
    try {
      for await (const event of send(url, { signal, headers: traced?.headers })) {
        if (event.type === 'usage') {
          note(event)
          continue
        }
        seen(event.type)
        if (event.type === 'cached') continue
        const { end } = event
        const completion = completions[event.completion]!
        add(completion, event)
        const others = completions.filter((other) => other !== completion)
        const isLast = others.every(({ isSatisfied }) => isSatisfied)
        if (completion.isSatisfied && isLast) return
        if (end === null || !endsAll) continue
        if (isLast) last = () => completion.finish(end)
        else completion.finish(end)
      }
      last()
    } catch (error) {
      const reason = lost.aborted && !this.#work.signal.aborted ? lost.reason : error
      traced?.end(reason)
      throw reason
    } finally {
      traced?.end()
    }
  }

  #errorOf(failure: unknown, { constraint, param = 'messages' }: AdmittedBranch<Prompt>): Error {
    if (!(failure instanceof ServerFailure)) return failure as Error
    if (failure.kind === 'long') {
      const message = 'The prompt is too long: with its completion it exceeds the context of the servers of this model.'
      return invalidRequest(message, param, { code: 'context_length_exceeded' })
    }
    if (failure.kind === 'rejected') {
      this.#parts.warn(`A conversation was rejected: ${failure.message}`)
      return invalidRequest('The servers of this model do not accept this conversation.', param)
    }
    if (failure.kind === 'log_probs') {
      this.#parts.warn(`Log-probabilities were refused: ${failure.message}`)
      return this.#work.unrated()
    }
    if (failure.kind === 'refused') return internalError(failure)
    if (failure.kind === 'grammar' && constraint !== undefined) {
      this.#parts.warn(`A constraint was refused: ${failure.message}`)
      return notSupported(constraint, 'the servers of this model cannot follow it')
    }
    if (failure.kind === 'busy') return overloaded(failure)
    return this.#parts.servers.up.length === 0 ? noServer() : unavailable('The server of this model has failed.')
  }
}

export function noServer(): ApiError {
  return unavailable('No server of this model can be used.')
}

/** @param failure may say when there will be room. */
export function overloaded({ retrySeconds }: ServerFailure): ApiError {
  return unavailable('The servers of this model are overloaded.', retrySeconds ?? RETRY_SECONDS)
}

export function unavailable(message: string, seconds = RETRY_SECONDS): ApiError {
  return modelOverloaded(`${message} ${tryAgainIn(seconds)}`, seconds)
}
