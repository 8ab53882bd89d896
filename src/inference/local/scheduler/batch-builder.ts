import type { BatchSplitter } from './batch-splitter.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { PrefillCursor } from './prefill-cursor.ts'
import { PrefillPace } from './prefill-pace.ts'
import { type Prefill, PrefillTurns } from './prefill-turns.ts'
import type { Sequence } from './sequence.ts'
import type { SequenceGroup } from './sequence-group.ts'
import type { SequenceManager } from './sequence-manager.ts'

interface Survey {
  readonly decoding: readonly Sequence[]
  /** Oldest first, by what comes next in them. */
  readonly texts: readonly Prefill[]
  readonly media: readonly Prefill[]
}

/**
 * From so many rows on, ggml's own attention (where `native/kernels` is not compiled) works on tiles of as many rows and
 * computes every cell that any row of a tile sees for all of them. That is fast for the rows of one prompt, and a waste
 * for rows of different sequences.
 */
const TILE_ROWS = 64
/** Where nobody waits for a next token, embeddings of a picture may take as long as so many other steps. */
const ALONE_MEDIA_STEPS = 2
/** So few next tokens beside a prompt waste less than a step of their own costs. */
const FEW_ROWS = 4

/** A step failed in native code, and with it these requests. */
export class StepError extends Error {
  readonly requests: ReadonlySet<SequenceGroup>

  constructor(requests: Iterable<SequenceGroup>, cause: unknown) {
    super('A step failed.', { cause })
    this.requests = new Set(requests)
  }
}

/**
 * Computes step by step. A step is one native call: a batch of next tokens of running completions and, beside them, of
 * prompts to prefill; or a picture to encode; or its embeddings to prefill. Every running completion gets one token a
 * round; a round is one step unless several small ones are faster, or there are more pictures to work on.
 */
export class BatchBuilder {
  readonly #loaded: LoadedModel
  readonly #manager: SequenceManager
  readonly #splitter: BatchSplitter
  readonly #pace: PrefillPace
  readonly #turns: PrefillTurns
  #step = 0
  #round = 0
  #wasMedia = false
  #wasPrompt = false
  /** Time that the last step of a picture took beyond that of all other steps since, in ms. */
  #mediaLeadMs = 0
  /** Prompt tokens computed since the start, those computed anew after an interruption included. */
  prefilledTokens = 0
  /** Tokens of completions since the start. */
  decodedTokens = 0

  constructor(loaded: LoadedModel, manager: SequenceManager, splitter: BatchSplitter) {
    this.#loaded = loaded
    this.#manager = manager
    this.#splitter = splitter
    this.#pace = new PrefillPace(splitter.rowMs, loaded.context.batch.capacity)
    this.#turns = new PrefillTurns(this.#pace)
  }

  /**
   * Computes one step; something must be running. Events are left in the requests.
   * @returns requests that have new events.
   * @throws StepError
   */
  step(): ReadonlySet<SequenceGroup> {
    this.#step++
    const survey = this.#survey()
    this.#pace.meet(this.#plainRequests)
    const touched = new Set<SequenceGroup>()
    this.#wasMedia = this.#isMediaTurn(survey)
    const started = performance.now()
    if (this.#wasMedia) this.#stepMedia(survey)
    else this.#stepText(survey, touched)
    const ms = performance.now() - started
    this.#mediaLeadMs = this.#wasMedia ? ms : this.#mediaLeadMs - ms
    this.#manager.settle()
    return touched
  }

  #survey(): Survey {
    const decoding: Sequence[] = []
    const texts: Prefill[] = []
    const media: Prefill[] = []
    const seen = new Set<PrefillCursor>()
    for (const completion of this.#manager.running) {
      if (completion.isDecoding) {
        decoding.push(completion)
        continue
      }
      const feed = completion.feed ?? prefixCursor(completion)
      if (feed === null || seen.has(feed)) continue
      seen.add(feed)
      const prefill = { feed, request: completion.request, completion: completion.feed === feed ? completion : null }
      if (feed.media === null) texts.push(prefill)
      else media.push(prefill)
    }
    return { decoding, texts, media }
  }

  /** Requests at work that have no pictures: beside those that have, somewhat longer steps do no harm. */
  get #plainRequests(): number {
    const requests = new Set(this.#manager.running.map(({ request }) => request))
    return [...requests].filter(({ work }) => work.usage.every(({ imageTokens }) => imageTokens === 0)).length
  }

  /**
   * Pictures take every other step at most, and none within a round. Beside a long prompt they take half of the time:
   * encoding one may last as long as ten steps.
   */
  #isMediaTurn({ decoding, texts, media }: Survey): boolean {
    if (media.length === 0) return false
    if (decoding.length + texts.length === 0) return true
    if (this.#mediaLeadMs > 0 && this.#turns.hasLong(texts)) return false
    const due = this.#due(decoding).length
    return !this.#wasMedia && (due === 0 || due === decoding.length)
  }

  #due(decoding: readonly Sequence[]): readonly Sequence[] {
    return decoding.filter((completion) => completion.round !== this.#round)
  }

  #stepMedia({ decoding, media }: Survey): void {
    // The one that has waited longest, so that a prompt of many pictures does not hold up the others.
    const { feed, request } = media.reduce((a, b) => (b.feed.lastMediaStep < a.feed.lastMediaStep ? b : a))
    feed.lastMediaStep = this.#step
    try {
      if (feed.needsEncoding) {
        feed.encodeMedia()
        return
      }
      const { capacity } = this.#loaded.context.batch
      const steps = decoding.length > 0 ? 1 : ALONE_MEDIA_STEPS
      const rows = feed.mediaRows(this.#pace.rowsWithin(steps * this.#pace.stepMs, feed.sequence.cells), capacity)
      // This may interrupt the owner of the picture itself, if it is the youngest.
      while (this.#loaded.kv.freeCells < rows) {
        if (!this.#manager.reclaim()) throw new Error('The KV cache is full.')
        if (!this.#survey().media.some((other) => other.feed === feed)) return
      }
      feed.decodeMedia(this.#loaded, rows)
      this.prefilledTokens += rows
    } catch (error) {
      throw new StepError([request], error)
    }
  }

  #stepText(survey: Survey, touched: Set<SequenceGroup>): void {
    const { context, kv } = this.#loaded
    let { decoding, texts } = survey
    const besidePrompts = texts.length > 0
    const isApart = this.#isApart(survey)
    this.#wasPrompt = isApart && !this.#wasPrompt
    if (this.#wasPrompt) decoding = []
    else if (isApart) texts = []
    let rows = this.#rows(decoding, besidePrompts)
    while (kv.freeCells < Math.max(1, rows.length)) {
      const { running } = this.#manager
      if (!this.#manager.reclaim()) {
        throw new StepError(
          running.map(({ request }) => request),
          new Error('The KV cache is full.'),
        )
      }
      const now = this.#survey()
      decoding = decoding.filter((completion) => now.decoding.includes(completion))
      texts = texts.filter(({ feed }) => now.texts.some((text) => text.feed === feed))
      rows = this.#rows(decoding, besidePrompts)
    }
    const ending: Sequence[] = []
    for (const completion of rows) this.#addRow(completion)
    const cells = rows.reduce((sum, { sequence }) => sum + sequence!.cells, 0) + this.#addPrompts(texts, ending)
    const { length } = context.batch
    if (length === 0) return
    const started = performance.now()
    try {
      context.decodeBatch()
    } catch (error) {
      throw new StepError([...rows.map(({ request }) => request), ...texts.map(({ request }) => request)], error)
    }
    if (length > rows.length) this.#pace.learn(length, cells, performance.now() - started)
    for (const completion of rows) this.#accept(completion, touched)
    for (const completion of ending) this.#accept(completion, touched)
  }

  /** Whether prompts and next tokens go into steps of their own, in turn. */
  #isApart({ decoding, texts }: Survey): boolean {
    if (decoding.length < FEW_ROWS || texts.length === 0) return false
    const rowsOf = ({ remaining, sequence }: PrefillCursor) =>
      Math.min(remaining, this.#pace.rowsWithin(this.#pace.stepMs, sequence.cells))
    return decoding.length + texts.reduce((rows, { feed }) => rows + rowsOf(feed), 0) >= TILE_ROWS
  }

  /** Completions to decode in this step. Beside prompts, or in turn with them, all that are due go together. */
  #rows(decoding: readonly Sequence[], besidePrompts: boolean): readonly Sequence[] {
    if (decoding.length === 0) return []
    let due = this.#due(decoding)
    if (due.length === 0) {
      this.#round++
      due = decoding
    }
    const wanted = besidePrompts ? due.length : this.#splitter.firstOf(due.length)
    const most = Math.min(TILE_ROWS - 1, this.#loaded.context.batch.capacity)
    return due.slice(0, Math.ceil(wanted / Math.ceil(wanted / most)))
  }

  #addRow(completion: Sequence): void {
    const { context, kv } = this.#loaded
    const sequence = completion.sequence!
    completion.row = context.batch.add(completion.nextToken, sequence.position, sequence.id, true)
    completion.round = this.#round
    kv.grow(sequence, 1, 1)
  }

  /**
   * Fills the batch with prompts, as far as the time of a step goes.
   * @param ending receives completions whose prompt ends in this batch, with the row of their first token in it.
   * @returns cells that the rows look back at, all rows together.
   */
  #addPrompts(prefills: readonly Prefill[], ending: Sequence[]): number {
    const { context, kv } = this.#loaded
    const { batch } = context
    let left = this.#pace.stepMs
    let cellsRead = 0
    for (const { feed, completion } of this.#turns.next(prefills)) {
      const most = Math.min(batch.capacity - batch.length, kv.freeCells)
      if (most <= 0 || left <= 0) break
      const { cells } = feed.sequence
      feed.lastTextStep = this.#step
      const rows = feed.addText(context, kv, Math.min(most, this.#pace.rowsWithin(left, cells)))
      left -= this.#pace.expectedMs(rows, cells)
      cellsRead += rows * (cells + rows / 2)
      if (!completion?.isJumping) this.prefilledTokens += rows
      if (completion?.feed?.isDone !== true || rows === most) continue
      completion.feed = null
      this.#addRow(completion)
      ending.push(completion)
    }
    return cellsRead
  }

  /** Takes the next token of a completion from the logits of its row. */
  #accept(completion: Sequence, touched: Set<SequenceGroup>): void {
    const { model, context } = this.#loaded
    const { request, branch, branchIndex, index, tokens } = completion
    let token: number
    try {
      token = completion.sampler.sample(context, completion.row)
    } catch (error) {
      // A constraint that cannot be followed any further is a matter of this branch alone.
      request.events.push({ type: 'error', branch: branchIndex, error: toError(error) })
      touched.add(request)
      this.#manager.end(completion)
      return
    }
    const stopped = model.isEndOfGeneration(token)
    if (!stopped) {
      tokens.push(token)
      const forced = completion.sampler.forced?.(branch.maxTokens - tokens.length) ?? []
      tokens.push(...forced)
      this.decodedTokens += 1 + forced.length
      completion.silentTokens += 1 + forced.length
      const text = [token, ...forced].map((next) => completion.text.push(model.piece(next))).join('')
      if (text !== '') {
        const { silentTokens } = completion
        request.events.push({ type: 'text', branch: branchIndex, completion: index, text, tokens: silentTokens })
        completion.silentTokens = 0
        touched.add(request)
      }
      if (forced.length > 0) completion.jump(forced.length)
      const isStuck = completion.goesInCircles([token, ...forced])
      if (tokens.length < branch.maxTokens && !isStuck) return
    }
    const reason = stopped ? 'stop' : 'length'
    request.events.push({
      type: 'finish',
      branch: branchIndex,
      completion: index,
      reason,
      completionTokens: tokens.length,
      ...(completion.sampler.thoughtInterrupted ? { thoughtInterrupted: true } : {}),
    })
    touched.add(request)
    this.#manager.end(completion)
  }
}

/** The part of a completion's shared prompt that is being prefilled now. */
function prefixCursor({ stem }: Sequence): PrefillCursor | null {
  let feed: PrefillCursor | null = null
  for (let part = stem; part !== null; part = part.parent) feed = part.feed ?? feed
  return feed
}

function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
