import type { LoadedModel } from '../loaded-model.ts'
import type { RunningSequence } from '../sequences/sequence-group.ts'
import type { SequenceManager } from '../sequences/sequence-manager.ts'
import type { BatchSplitter } from './batch-splitter.ts'
import { DraftPlanner, LONGEST_DRAFT } from './draft-planner.ts'
import type { EncoderAside } from './encoder-aside.ts'
import type { PrefillCursor } from './prefill-cursor.ts'
import { PrefillPace } from './prefill-pace.ts'
import { PrefillTurns } from './prefill-turns.ts'
import type { SharedPrefix } from './shared-prefix.ts'
import { type Decoding, type Prefill, type PrefillPart, type Step, StepError } from './step.ts'

/** What running sequences need next, oldest first. */
interface Needs {
  readonly decoding: readonly RunningSequence[]
  readonly texts: readonly Prefill[]
  readonly media: readonly Prefill[]
}

/** Where nothing decodes, the embeddings of an image may take as long as this many other steps. */
const ALONE_MEDIA_STEPS = 2
/** Below this many next tokens, a step of their own costs more than they waste beside a prompt. */
const FEW_ROWS = 4

/**
 * Decides what each step computes. It owns the order of steps: whose turn it is among next tokens, prompts and media, and
 * how long a step may take. Every decoding sequence gets one token per round; a round is one step, unless several small
 * ones are faster or media take a step in between. The scheduler calls it once per step.
 */
export class BatchBuilder {
  readonly #loaded: LoadedModel
  readonly #manager: SequenceManager
  readonly #splitter: BatchSplitter
  /** Null where nothing is drafted. */
  readonly #drafts: DraftPlanner | null
  readonly #pace: PrefillPace
  readonly #turns: PrefillTurns
  /** Null where encoding takes steps. */
  readonly #aside: EncoderAside | null
  #number = 0
  #isBackground = false
  #round = 0
  #wasMedia = false
  #wasPrompt = false
  /** Time by which the last step of media was longer than all other steps since, in ms. */
  #mediaLeadMs = 0
  /** Duration of the last step of something else, in ms. */
  #otherMs = 0

  /**
   * @param speculates whether next tokens are drafted where that pays.
   * @param aside what encodes beside the steps; null where encoding takes steps.
   */
  constructor(
    loaded: LoadedModel,
    manager: SequenceManager,
    splitter: BatchSplitter,
    speculates: boolean,
    aside: EncoderAside | null = null,
  ) {
    this.#aside = aside
    this.#loaded = loaded
    this.#manager = manager
    this.#splitter = splitter
    this.#drafts = speculates ? new DraftPlanner(splitter) : null
    this.#pace = new PrefillPace(splitter.rowMs, loaded.context.batch.capacity, loaded.compute)
    this.#turns = new PrefillTurns(this.#pace)
  }

  /**
   * Decides on the next step. Something of the class must be running. May preempt sequences to make room.
   * @param isBackground whether the step is for work in the background.
   * @param makesWay whether it is to be short, because other work is likely to come.
   * @returns null when what it wanted to compute was preempted, or is being encoded.
   * @throws StepError when no room can be made.
   */
  next(isBackground: boolean, makesWay = false): Step | null {
    this.#number++
    this.#isBackground = isBackground
    const needs = this.#survey()
    if (this.waitsForEncoder) return null
    this.#pace.meet(this.#groupsWithoutImages, makesWay)
    this.#wasMedia = this.#isMediaTurn(needs)
    return this.#wasMedia ? this.#mediaStep(needs) : this.#textStep(needs)
  }

  /** Whether all that runs, of either class, waits for an encoder: until it ends, there is nothing to compute. */
  get waitsForEncoder(): boolean {
    const { running } = this.#manager
    if (this.#aside?.isBusy !== true || running.length === 0) return false
    return running.every(({ sequence }) => {
      const cursor = sequence.isFilled ? null : (sequence.cursor ?? prefixCursor(sequence.parent))
      return cursor !== null && this.#isForEncoder(cursor)
    })
  }

  /** Whether media come next that another thread encodes, or will. */
  #isForEncoder(cursor: PrefillCursor): boolean {
    return this.#aside !== null && cursor.media !== null && !cursor.hasFailed && cursor.needsEncoding
  }

  /**
   * Learns from the step that was computed.
   * @param decodeMs of a text step: how long it was computed; null where that is not known.
   * @param ms duration of all of it.
   */
  learn(step: Step | null, decodeMs: number | null, ms: number): void {
    this.#mediaLeadMs = this.#wasMedia ? ms : this.#mediaLeadMs - ms
    if (!this.#wasMedia) this.#otherMs = ms
    if (step?.type !== 'text' || decodeMs === null) return
    const { rows, decoding, prefills } = step
    if (prefills.length > 0) this.#pace.learn(rows, step.cellsRead, decodeMs)
    else this.#drafts?.learn(rows, rows > decoding.length, decodeMs)
  }

  #survey(): Needs {
    const decoding: RunningSequence[] = []
    const texts: Prefill[] = []
    const media: Prefill[] = []
    const all: Prefill[] = []
    const seen = new Set<PrefillCursor>()
    for (const running of this.#manager.running) {
      const { group, sequence } = running
      if (group.isBackground !== this.#isBackground) continue
      if (sequence.isFilled) {
        decoding.push(running)
        continue
      }
      const cursor = sequence.cursor ?? prefixCursor(sequence.parent)
      if (cursor === null || seen.has(cursor)) continue
      seen.add(cursor)
      const prefill = { cursor, group, sequence: sequence.cursor === cursor ? sequence : null }
      all.push(prefill)
      if (cursor.media === null) texts.push(prefill)
      else if (!this.#isForEncoder(cursor)) media.push(prefill)
    }
    this.#aside?.begin(all, this.#number)
    return { decoding, texts, media }
  }

  /** Number of running groups without images. Beside those with images, somewhat longer steps do no harm. */
  get #groupsWithoutImages(): number {
    const groups = new Set(this.#manager.running.map(({ group }) => group))
    return [...groups].filter(({ work }) => work.usage.every(({ imageTokens }) => imageTokens === 0)).length
  }

  /**
   * Media take every other step at most, and none within a round. Beside a long prompt they take half of the time:
   * encoding an image may last as long as ten steps.
   */
  #isMediaTurn({ decoding, texts, media }: Needs): boolean {
    if (media.length === 0) return false
    if (decoding.length + texts.length === 0) return true
    if (this.#mediaLeadMs > 0 && this.#turns.hasLong(texts)) return false
    const due = this.#due(decoding).length
    return !this.#wasMedia && (due === 0 || due === decoding.length)
  }

  /** Sequences that have not had their token in this round. */
  #due(decoding: readonly RunningSequence[]): readonly RunningSequence[] {
    return decoding.filter(({ sequence }) => sequence.round !== this.#round)
  }

  #mediaStep({ decoding, texts, media }: Needs): Step | null {
    const number = this.#number
    // The one that has waited longest, so that a prompt with many images does not hold up the others.
    const prefill = media.reduce((a, b) => (b.cursor.lastMediaStep < a.cursor.lastMediaStep ? b : a))
    const { cursor } = prefill
    try {
      if (cursor.needsEncoding) {
        // There is one encoder, and it completes what it has begun.
        const begun = media.find((other) => other.cursor.isEncoding) ?? prefill
        return {
          type: 'encode',
          number,
          promptTokens: 0,
          prefill: begun,
          ms: this.#encodeMs(decoding.length + texts.length > 0),
        }
      }
      const steps = decoding.length > 0 || this.#pace.makesWay ? 1 : ALONE_MEDIA_STEPS
      const { compute, context } = this.#loaded
      const wanted = this.#pace.rowsWithin(steps * this.#pace.stepMs, cursor.kvSequence.cells)
      const rows = cursor.mediaRows(compute.wholeMedia ? context.mediaRows : wanted, context.mediaRows)
      // This may preempt the owner of the media itself, if it is the youngest.
      while (this.#loaded.kv.freeCells < rows) {
        if (!this.#manager.reclaim()) throw new Error('The KV cache is full.')
        if (!this.#survey().media.some((other) => other.cursor === cursor)) return null
      }
      return { type: 'media', number, promptTokens: rows, prefill, rows }
    } catch (error) {
      throw new StepError([prefill.group], error)
    }
  }

  /** How long the encoder runs: as long as the steps between which it has its turn, or else little would be left to it. */
  #encodeMs(takesTurns: boolean): number {
    const { stepMs, makesWay } = this.#pace
    return takesTurns && !makesWay ? Math.max(stepMs, this.#otherMs) : stepMs
  }

  #textStep(needs: Needs): Step | null {
    const { kv } = this.#loaded
    let { decoding, texts } = needs
    const besidePrompts = texts.length > 0
    const isApart = this.#isApart(needs)
    this.#wasPrompt = isApart && !this.#wasPrompt
    if (this.#wasPrompt) decoding = []
    else if (isApart) texts = []
    let rows = this.#rows(decoding, besidePrompts)
    while (kv.freeCells < Math.max(1, rows.length)) {
      const groups = this.#manager.running.map(({ group }) => group)
      if (!this.#manager.reclaim()) throw new StepError(groups, new Error('The KV cache is full.'))
      const now = this.#survey()
      decoding = decoding.filter((running) => now.decoding.includes(running))
      texts = texts.filter(({ cursor }) => now.texts.some((text) => text.cursor === cursor))
      rows = this.#rows(decoding, besidePrompts)
    }
    return this.#fill(rows, texts)
  }

  /**
   * Whether prompts and next tokens go into steps of their own, in turn. Where attention works on tiles, together they
   * would waste more than reading the weights once for both saves.
   */
  #isApart({ decoding, texts }: Needs): boolean {
    const { tileRows } = this.#loaded.compute
    if (tileRows === null || decoding.length < FEW_ROWS || texts.length === 0) return false
    const rowsOf = ({ remaining, kvSequence }: PrefillCursor) =>
      Math.min(remaining, this.#pace.rowsWithin(this.#pace.stepMs, kvSequence.cells))
    return decoding.length + texts.reduce((rows, { cursor }) => rows + rowsOf(cursor), 0) >= tileRows
  }

  /** Sequences to decode in this step. Beside prompts, or in turn with them, all that are due go together. */
  #rows(decoding: readonly RunningSequence[], besidePrompts: boolean): readonly RunningSequence[] {
    if (decoding.length === 0) return []
    let due = this.#due(decoding)
    if (due.length === 0) {
      this.#round++
      due = decoding
    }
    const wanted = besidePrompts ? due.length : this.#splitter.firstOf(due.length)
    return due.slice(0, Math.ceil(wanted / Math.ceil(wanted / this.#mostNext)))
  }

  /** Rows of next tokens that may go into one step. */
  get #mostNext(): number {
    const { context, compute } = this.#loaded
    return Math.min((compute.tileRows ?? Number.POSITIVE_INFINITY) - 1, context.batch.capacity)
  }

  /** Adds drafts to next tokens, as far as the rows are worth their time. Beside prompts, batches are large already. */
  #draft(decoding: readonly RunningSequence[], texts: readonly Prefill[]): readonly Decoding[] {
    const { context, kv } = this.#loaded
    const plain = () => decoding.map(({ group, sequence }) => ({ group, sequence, draft: [] }))
    if (texts.length > 0 || decoding.length === 0 || !this.#drafts?.mayPay(decoding.length)) return plain()
    const drafts = decoding.map(({ sequence }) =>
      sequence.propose(kv.mayShrink(sequence.kvSequence!, 1 + LONGEST_DRAFT) ? LONGEST_DRAFT : 0),
    )
    if (drafts.every(({ tokens }) => tokens.length === 0)) return plain()
    const most = Math.min(this.#mostNext, context.outputs)
    const lengths = this.#drafts.plan(drafts, decoding.length, most)
    const rows = lengths.reduce((sum, length) => sum + length, decoding.length)
    this.#manager.provide(rows)
    // Nothing that runs gives way to a draft.
    if (kv.freeCells < rows) return plain()
    return decoding.map(({ group, sequence }, at) => {
      const { tokens } = drafts[at]!
      return { group, sequence, draft: tokens.slice(0, lengths[at]) }
    })
  }

  /** Fills what the next tokens leave of the batch with prompts, as far as the time of a step goes. */
  #fill(next: readonly RunningSequence[], texts: readonly Prefill[]): Step | null {
    const { context, kv } = this.#loaded
    const decoding = this.#draft(next, texts)
    const decodingRows = decoding.reduce((sum, { draft }) => sum + 1 + draft.length, 0)
    const all = texts.reduce((sum, { cursor }) => sum + cursor.remaining + 1, decodingRows)
    this.#manager.provide(Math.min(context.batch.capacity, all))
    const free = Math.min(context.batch.capacity, kv.freeCells)
    const prefills: PrefillPart[] = []
    let rows = decodingRows
    let cellsRead = decoding.reduce(
      (sum, { sequence, draft }) => sum + (1 + draft.length) * (sequence.kvSequence!.cells + 1),
      0,
    )
    let promptTokens = 0
    let left = this.#pace.stepMs
    for (const prefill of this.#turns.next(texts)) {
      const most = free - rows
      if (most <= 0 || left <= 0) break
      const { cursor, group, sequence } = prefill
      const { cells } = cursor.kvSequence
      const wanted = Math.min(most, this.#pace.rowsWithin(left, cells))
      const count = cursor.textRows(wanted)
      left -= this.#pace.expectedMs(count, cells)
      cellsRead += count * (cells + count / 2)
      if (!sequence?.isJumping) promptTokens += count
      const next = count === cursor.remaining && count < most ? sequence : null
      prefills.push({ cursor, group, rows: count, next })
      rows += count + (next === null ? 0 : 1)
    }
    if (rows === 0) return null
    const [number, round] = [this.#number, this.#round]
    return { type: 'text', number, round, promptTokens, decoding, prefills, rows, cellsRead }
  }
}

/** The part of a sequence's shared prompt that is being prefilled now. */
function prefixCursor(shared: SharedPrefix | null): PrefillCursor | null {
  let cursor: PrefillCursor | null = null
  for (let prefix = shared; prefix !== null; prefix = prefix.parent) cursor = prefix.cursor ?? cursor
  return cursor
}
