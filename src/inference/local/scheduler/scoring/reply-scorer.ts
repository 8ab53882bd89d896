import { logSum } from '../../../../lib/log-sum.ts'
import type { PromptUsage, TokenLogProb } from '../../../contract/generation.ts'
import type { Priority } from '../../../contract/priority.ts'
import type { ReplyTree } from '../../../contract/reply-tree.ts'
import type { ReadWork } from '../../../contract/work.ts'
import { SHORTEST_MATCH } from '../../cache/prefix-match.ts'
import { toFailure } from '../../failure.ts'
import type { FromEngine, SentAnswer } from '../../protocol.ts'
import { reportToken } from '../../sampling/log-prob-sampler.ts'
import { countCells } from '../batch/prefill-cursor.ts'
import type { LoadedModel } from '../loaded-model.ts'
import type { PrefixReuse, Prompt } from '../sequences/prefix-reuse.ts'
import type { GroupIdentity } from '../sequences/sequence-group.ts'
import { LONG_STEPS, ThreadCount } from '../thread-count.ts'
import { WorkQueue } from '../work-queue.ts'
import { type AdmittedQuestion, type AdmittedScoring, admitScoring } from './question-admission.ts'
import { ScoringContext, type ScoringUnit, type UnitRows } from './scoring-context.ts'
import { type ScoringLimits, scoringLimits } from './scoring-limits.ts'
import type { ScoringPrefix } from './scoring-prefix.ts'
import { type OpenQuestion, ScoringRequest } from './scoring-request.ts'

export interface ScorerSettings {
  /** Calibrated ms per prompt row. */
  readonly rowMs: number
  /** Whether a row's numbers are the same in any batch; see `Numerics`. */
  readonly isBatchInvariant: boolean
}

/** Maximum time of an encoder that can pause in one step, in ms: requests that arrive meanwhile wait. */
const ENCODE_MS = 30
/** An idle context is closed after this time, in ms. */
const IDLE_MS = 30_000
/** A request's turn lasts at least this many times as long as its prefix took to load. */
const TURN_PER_PREFIX = 4

/** Fewer rows take hardly less time: the fixed cost of a call is about that of this many rows. */
const FEW_ROWS = 16

/** A reply tree of an open question. */
interface Part extends ScoringUnit {
  readonly open: OpenQuestion
}

/**
 * Computes the probabilities of given replies. It owns the requests and their shared context. The scheduler has it make one
 * native call at a time, in turn with completions. Organisations take turns, each for one call, or for several if its context
 * took long to load. The engine process submits requests.
 */
export class ReplyScorer {
  readonly #loaded: LoadedModel
  readonly #send: (message: FromEngine) => void
  readonly #limits: ScoringLimits
  /** Its prefix cache has what completions have computed of prefixes, and keeps those that the context had. */
  readonly #reuse: PrefixReuse
  /** Whether a prefix must be computed here, in calls that depend on it alone. */
  readonly #isExact: boolean
  readonly #isCopied: boolean
  readonly #queue = new WorkQueue<ScoringRequest>()
  readonly #requests = new Map<number, ScoringRequest>()
  #context: ScoringContext | null = null
  /** The request whose turn it is to have the context; null when its turn has ended. */
  #holder: ScoringRequest | null = null
  /** Whether to keep the prefix in the context: at least one request for it was not transient. */
  #isKept = false
  readonly #threads: ThreadCount
  #endTokens: readonly number[] | null = null
  /** The question whose lead is in the context. */
  #led: OpenQuestion | null = null
  /** Time to load the prefix into the context, and of the calls for questions since. */
  #prefixMs = 0
  #turnMs = 0
  /** Measured ms per row. */
  #rowMs = 0
  #prefilledTokens = 0
  #idle: NodeJS.Timeout | null = null

  constructor(
    loaded: LoadedModel,
    { rowMs, isBatchInvariant }: ScorerSettings,
    reuse: PrefixReuse,
    send: (message: FromEngine) => void,
  ) {
    this.#loaded = loaded
    this.#send = send
    this.#limits = scoringLimits(loaded, isBatchInvariant)
    const { threads } = this.#limits
    const roundMs = (rows: number) => (rows + FEW_ROWS) * rowMs
    this.#threads = new ThreadCount({ roundMs }, threads, threads, LONG_STEPS)
    this.#reuse = reuse
    this.#isExact = !isBatchInvariant
    // Copies of other sequences may have their cells in another order.
    this.#isCopied = isBatchInvariant || loaded.model.cuttablePositions === Number.POSITIVE_INFINITY
  }

  get isIdle(): boolean {
    return this.#queue.isEmpty
  }

  /**
   * Whether there is a request of a priority that may have the next call. Live ones do not take the context from others within
   * their turn, which would load it again and again; background ones wait until no others are there.
   */
  has(priority: Priority): boolean {
    if (priority === 'background') return this.#queue.head?.priority === priority
    if (priority === 'live' && this.#holder?.priority === 'interactive') return false
    return !this.#queue.of(priority).isEmpty
  }

  get running(): number {
    return this.#requests.size - this.waiting
  }

  get waiting(): number {
    return this.#queue.waiting
  }

  waitingOf(priority: Priority): number {
    return this.#queue.waitingOf(priority)
  }

  get prefilledTokens(): number {
    return this.#prefilledTokens
  }

  /** @throws FailureError if the work does not fit. */
  async admit(work: ReadWork, signal: AbortSignal): Promise<AdmittedScoring> {
    const admitted = await admitScoring(this.#loaded, work, this.#limits, signal)
    const [first] = admitted.questions
    if (first !== undefined && !this.#isExact && !work.isTransient) await this.#reuse.readAhead(first.prefix)
    if (signal.aborted) admitted.close()
    return admitted
  }

  /** Replies with `admitted`, then `answers`; or with `error`. @param traced whether to send its stages too. */
  submit(identity: GroupIdentity, work: AdmittedScoring, traced: boolean): void {
    const { id } = identity
    const request = new ScoringRequest(identity, work, this.#limits, traced)
    this.#send({ type: 'admitted', id, prompts: this.#usage(work, request) })
    this.#requests.set(id, request)
    this.#queue.of(request.priority).add(request)
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#idle = null
  }

  /** Copies the prefix in the context for a prompt that begins alike, unless the prompt finds as much elsewhere. */
  share(prompt: Prompt): void {
    const prefix = this.#context?.prefix ?? null
    if (this.#isExact || prefix?.organisation !== prompt.organisation) return
    const found = this.#reuse.find(prompt)?.cut.cells ?? 0
    if (prompt.key.commonPrefix(prefix.key).cells >= found + SHORTEST_MATCH) this.#put(this.#context)
  }

  abort(id: number): void {
    const request = this.#requests.get(id)
    if (request !== undefined) this.#close(request)
  }

  /**
   * Makes the next call, for a request of a priority. A live one that has begun comes first: it will soon end, and what
   * has been computed for it would be lost.
   * @returns the priority of the request that got it.
   */
  step(priority: Priority, budgetMs: number): Priority {
    const request = this.#holder?.priority === 'live' ? this.#holder : this.#queue.of(priority).head
    if (request === undefined) return priority
    this.#holder = request
    if (!request.hasStarted && request.isTraced) this.#send({ type: 'started', id: request.id })
    request.hasStarted = true
    const [open] = request.next(1)
    try {
      if (open !== undefined) this.#advance(request, open, budgetMs)
    } catch (error) {
      const isOfPrefix = this.#led === null && this.#context?.isFilled !== true
      // The content of the context is unknown now.
      this.#forget()
      if (open === undefined || isOfPrefix || open.question.text !== undefined) this.#fail(request, error)
      else this.#answer(request, [{ question: open.question.index, error: toFailure(error) }], [open])
    }
    return request.priority
  }

  close(): void {
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#context?.close()
    this.#context = null
  }

  #advance(request: ScoringRequest, open: OpenQuestion, budgetMs: number): void {
    const { prefix, lead } = open.question
    const started = performance.now()
    const context = this.#contextFor(open)
    if (this.#led !== null && this.#led !== open) this.#endLead()
    if (context.prefix?.name !== prefix.name) {
      const { text } = open.question
      if (text?.before != null && context.isFilled && context.prefix === text.before) context.extend(prefix)
      else this.#begin(context, prefix)
      this.#isKept = !request.isTransient
      this.#prefixMs = context.isFilled ? performance.now() - started : 0
      this.#turnMs = 0
      if (context.isFilled) return
    }
    this.#isKept ||= !request.isTransient
    if (this.#led === null && context.isFilled && lead.length > 0) {
      context.beginLead(lead)
      this.#led = open
    }
    // The fastest number of threads, if numbers do not depend on it.
    if (this.#limits.sharesCalls) context.setThreads(this.#threads.next(true))
    if (!context.isFilled) {
      const filling = performance.now()
      const { tokens, encodeMs } = context.fill({
        ms: Math.min(budgetMs, ENCODE_MS),
        priority: request.priority,
      })
      if (tokens > 0) this.#threads.learn(tokens, performance.now() - filling)
      this.#prefilledTokens += tokens
      if (encodeMs !== null && request.isTraced) this.#send({ type: 'encoded', id: request.id, ms: encodeMs })
      if (this.#led === null) this.#prefixMs += performance.now() - started
      else this.#turnMs += performance.now() - started
      return
    }
    this.#score(request, this.#partsFor(request, open, budgetMs))
    this.#turnMs += performance.now() - started
    if (this.#led === null && this.#turnMs >= TURN_PER_PREFIX * this.#prefixMs) {
      this.#turnMs = 0
      this.#queue.of(request.priority).rotate()
      if (request.priority === 'interactive') this.#holder = null
    }
  }

  /** The context, created or enlarged to have enough cells. */
  #contextFor({ question: { prefix, lead, text } }: OpenQuestion): ScoringContext {
    const cells = Math.max(prefix.cells + countCells(lead), text?.cells ?? 0) + this.#limits.rows
    if (this.#context !== null && this.#context.cells >= cells) return this.#context
    this.#put(this.#context)
    this.#context?.close()
    this.#context = null
    this.#led = null
    this.#context = new ScoringContext(this.#loaded, this.#limits, cells)
    return this.#context
  }

  /** Starts another prefix in the context, with the cells that copies have. */
  #begin(context: ScoringContext, prefix: ScoringPrefix): void {
    this.#put(context)
    const isExact = this.#isExact
    if (this.#isCopied) context.begin(prefix, (kv) => this.#reuse.restoreTo(prefix, { kv, isExact }))
    else context.begin(prefix)
  }

  /** Keeps a copy of the context's prefix, unless that is transient. */
  #put(context: ScoringContext | null): void {
    if (context === null || context.prefix === null || !this.#isCopied || !this.#isKept) return
    const { kv, prefix, prefixSequence } = context
    const isExact = this.#isExact
    if (prefixSequence !== null) this.#reuse.copyFrom(prefix, prefixSequence, { kv, isExact })
  }

  #endLead(): void {
    if (this.#led === null) return
    this.#led = null
    this.#context?.endLead()
  }

  /** The parts for the next call: one, or those of several questions as far as they fit. */
  #partsFor(request: ScoringRequest, first: OpenQuestion, budgetMs: number): readonly Part[] {
    const parts: Part[] = []
    const { rows: mostRows, outputs: mostOutputs, leaves: mostLeaves } = this.#limits
    const wanted = this.#rowMs === 0 ? mostRows : Math.min(mostRows, Math.max(FEW_ROWS, budgetMs / this.#rowMs))
    let [rows, outputs, leaves] = [0, 0, 0]
    for (let count = 1; ; count++) {
      const open = request.next(count)[count - 1]
      if (open === undefined || (parts.length > 0 && !this.#mayJoin(first, open))) return parts
      for (const tree of open.trees) {
        rows += open.question.tail.length + tree.nodes.length
        outputs += 1 + tree.nodes.length
        leaves += tree.leaves
        const fits = rows <= wanted && outputs <= mostOutputs && leaves <= mostLeaves
        if (parts.length > 0 && !fits) return parts
        parts.push({ open, tail: open.question.tail, tree })
        if (!this.#limits.sharesCalls || this.#led !== null || open.isAlone) return parts
      }
    }
  }

  /** Whether two questions may share a call. */
  #mayJoin({ question: a }: OpenQuestion, { question: b, isAlone }: OpenQuestion): boolean {
    return a.prefix.name === b.prefix.name && a.lead.length + b.lead.length === 0 && !isAlone
  }

  #score(request: ScoringRequest, parts: readonly Part[]): void {
    const context = this.#context!
    const rows = parts.reduce((sum, { tail, tree }) => sum + tail.length + tree.nodes.length, 0)
    const questions = [...new Set(parts.map(({ open }) => open))]
    const started = performance.now()
    let placed: UnitRows[]
    try {
      placed = context.decode(parts)
      this.#threads.learn(rows, performance.now() - started)
    } catch (error) {
      if (questions.length === 1) throw error
      this.#forget()
      for (const open of questions) open.isAlone = true
      return
    }
    for (const [at, { open, tree }] of parts.entries()) {
      const { text } = open.question
      if (text === undefined) open.settle(tree, this.#logProbsOf(context, tree, placed[at]!))
      else {
        text.scored.push(...this.#tokensOf(context, open.question, text, placed[at]!))
        open.settle(tree, [])
      }
      this.#prefilledTokens += open.countTail()
    }
    this.#rowMs = (performance.now() - started) / Math.max(rows, FEW_ROWS)
    const done = questions.filter(({ trees }) => trees.length === 0)
    if (this.#led !== null && done.length > 0) this.#endLead()
    this.#answer(
      request,
      done.flatMap(({ answer }) => (answer ?? []) as SentAnswer),
      done,
    )
  }

  /** Log-probabilities of the tokens of a piece of a text; the first piece includes the text's first token. */
  #tokensOf(
    context: ScoringContext,
    { tail, replies }: AdmittedQuestion,
    { scored, cells, topLogProbs }: NonNullable<AdmittedQuestion['text']>,
    { root, nodes }: UnitRows,
  ): TokenLogProb[] {
    const { model } = this.#loaded
    const first = scored.length > 0 ? [] : [reportToken(model, tail[0]!, { logProb: Number.NaN, top: [] })]
    if (cells === 1) return first
    const followed = Array.from(replies[0]!, (token, at) =>
      reportToken(model, token, context.rank(at === 0 ? root : nodes[at - 1]!, token, topLogProbs)),
    )
    return [...first, ...followed]
  }

  /** Log-probabilities of a tree's replies, by its `ends`. */
  #logProbsOf(context: ScoringContext, { nodes, ends }: ReplyTree, rows: UnitRows): number[] {
    const { model } = this.#loaded
    if (this.#endTokens === null) {
      const tokens = Array.from({ length: model.vocabularySize }, (_, token) => token)
      this.#endTokens = tokens.filter((token) => model.isEndOfGeneration(token))
    }
    const endTokens = this.#endTokens
    const rowOf = (node: number) => (node < 0 ? rows.root : rows.nodes[node]!)
    const wanted = new Map<number, Set<number>>()
    const want = (row: number, tokens: readonly number[]) =>
      wanted.set(row, new Set([...(wanted.get(row) ?? []), ...tokens]))
    for (const { token, parent } of nodes) want(rowOf(parent), [token])
    for (const { node, token } of ends) want(rowOf(node), token === null ? endTokens : [token])
    const read = context.read(wanted)
    /** Log-probabilities of the paths from the root through each node. */
    const paths: number[] = []
    for (const { token, parent } of nodes) {
      const { logits, logSum: sum } = read.get(rowOf(parent))!
      paths.push((parent < 0 ? 0 : paths[parent]!) + logits.get(token)! - sum)
    }
    return ends.map(({ node, token: last }) => {
      const { logits, logSum: sum } = read.get(rowOf(node))!
      const end = logSum((last === null ? endTokens : [last]).map((token) => logits.get(token)!)) - sum
      // Rounding may add up to slightly more than probability 1.
      return Math.min(0, (paths[node] ?? 0) + end)
    })
  }

  #answer(request: ScoringRequest, answers: readonly SentAnswer[], done: readonly OpenQuestion[]): void {
    for (const open of done) request.close(open)
    const last = request.isFinished
    if (answers.length > 0) this.#send({ type: 'answers', id: request.id, answers, last })
    if (last) this.#close(request)
  }

  #fail(request: ScoringRequest, error: unknown): void {
    this.#close(request)
    this.#send({ type: 'error', id: request.id, error: toFailure(error) })
  }

  #close(request: ScoringRequest): void {
    this.#requests.delete(request.id)
    this.#queue.of(request.priority).remove(request)
    if (this.#holder === request) this.#holder = null
    if (this.#led !== null && request.next(1)[0] === this.#led) this.#endLead()
    const prefix = this.#context?.prefix ?? null
    // A partly computed prefix may need media of the request.
    if (request.hasStarted && this.#context?.isFilled === false) this.#forget()
    else if (!this.#isKept && prefix !== null && request.has(prefix.name)) this.#forget()
    request.work.close()
    if (!this.isIdle) return
    this.#idle = setTimeout(() => {
      this.#put(this.#context)
      this.close()
    }, IDLE_MS)
    this.#idle.unref()
  }

  /** Empties the context. */
  #forget(): void {
    this.#led = null
    this.#context?.clear()
  }

  /** The first question is charged for the prefix, unless an earlier request left it. */
  #usage({ usage, questions }: AdmittedScoring, request: ScoringRequest): readonly PromptUsage[] {
    const cachedTokens = this.#knownCells(questions[0]!.prefix)
    this.#reuse.count(cachedTokens, request)
    return usage.map((prompt, index) => (index === 0 ? { ...prompt, cachedTokens } : prompt))
  }

  #knownCells(prefix: ScoringPrefix): number {
    if (this.#context?.isFilled && this.#context.prefix?.name === prefix.name) return prefix.cells
    return this.#isCopied ? this.#reuse.copy(prefix, { isExact: this.#isExact }) : 0
  }
}
