import type { Priority } from '../../../contract/priority.ts'
import type { Adapter } from '../../native/adapter.ts'
import type { LoadedModel } from '../loaded-model.ts'
import type { Sequence } from '../sequences/sequence.ts'
import type { RunningSequence } from '../sequences/sequence-group.ts'
import type { SequenceManager } from '../sequences/sequence-manager.ts'
import type { SharedPrefix } from '../sequences/shared-prefix.ts'
import type { BatchSplitter } from './batch-splitter.ts'
import { DraftPlanner, LONGEST_DRAFT } from './draft-planner.ts'
import type { EncoderAside } from './encoder-aside.ts'
import { Lanes } from './lanes.ts'
import type { PrefillCursor } from './prefill-cursor.ts'
import { PrefillPace } from './prefill-pace.ts'
import { PrefillTurns } from './prefill-turns.ts'
import { type Decoding, type Prefill, type PrefillPart, type Step, StepError } from './step.ts'

/** The next needs of running sequences, oldest first. */
interface Needs {
  readonly decoding: readonly RunningSequence[]
  readonly texts: readonly Prefill[]
  readonly media: readonly Prefill[]
}

/** If no sequence decodes, a media step may take as long as this many other steps. */
const ALONE_MEDIA_STEPS = 2
/** Next tokens and prompts of transient work wait for media until they have this many rows: few large batches are faster. */
const GATHERED_ROWS = 64
/** Below this many next tokens, a step of their own costs more than they waste beside a prompt. */
const FEW_ROWS = 4
const NO_ADAPTERS: ReadonlySet<null> = new Set([null])

/**
 * Decides what each step computes. It owns the order of decode, prefill and media steps, and their maximum duration. Every
 * decoding sequence gets one token per round; a round is one step, unless several small ones are faster or a media step comes
 * in between. The scheduler calls it once per step.
 */
export class BatchBuilder {
  readonly #loaded: LoadedModel
  readonly #manager: SequenceManager
  readonly #splitter: BatchSplitter
  /** Null if speculation is off. */
  readonly #drafts: DraftPlanner | null
  readonly #pace: PrefillPace
  readonly #turns: PrefillTurns
  /** Null if encoding takes steps. */
  readonly #aside: EncoderAside | null
  #number = 0
  #priority: Priority = 'interactive'
  readonly #lanes = new Lanes()
  /** The lane of the step. */
  #lane = this.#lanes.next(new Set())
  /** Duration of the last other step, in ms. */
  #otherMs = 0

  /**
   * @param speculates whether to draft tokens where that pays off.
   * @param aside encodes beside the steps; null if encoding takes steps.
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
   * Builds the next step, for the running sequences of a priority: there must be one. May preempt sequences to free cells.
   * @param makesWay whether it must be short, because more urgent work is likely to arrive.
   * @returns null if its sequences were preempted, or wait for the encoder.
   * @throws StepError if no cells can be freed.
   */
  next(priority: Priority, makesWay = false): Step | null {
    this.#number++
    this.#priority = priority
    this.#lane = this.#lanes.next(this.#adapters)
    const needs = this.#survey()
    if (this.waitsForEncoder) return null
    this.#pace.meet(this.#groupsWithoutImages, makesWay)
    this.#lane.wasMedia = this.#isMediaTurn(needs)
    return this.#lane.wasMedia ? this.#mediaStep(needs) : this.#textStep(needs)
  }

  /** The adapters of running sequences that do not wait for an encoder. */
  get #adapters(): ReadonlySet<Adapter | null> {
    if (this.#loaded.adapters.size === 0) return NO_ADAPTERS
    const running = this.#manager.running.filter(
      ({ group, sequence }) => group.priority === this.#priority && !this.#waits(sequence),
    )
    return new Set(running.map(({ group }) => group.work.adapter))
  }

  /** Whether all running sequences, of all priorities, wait for an encoder, so that there is nothing to compute. */
  get waitsForEncoder(): boolean {
    const { running } = this.#manager
    if (this.#aside?.isBusy !== true || running.length === 0) return false
    return running.every(({ sequence }) => this.#waits(sequence))
  }

  /** Whether a sequence waits for an encoder. */
  #waits(sequence: Sequence): boolean {
    const cursor = sequence.isFilled ? null : (sequence.cursor ?? prefixCursor(sequence.parent))
    return cursor !== null && this.#isForEncoder(cursor)
  }

  /** Whether its next chunk is media that another thread encodes or will encode. */
  #isForEncoder(cursor: PrefillCursor): boolean {
    return this.#aside !== null && cursor.media !== null && !cursor.hasFailed && cursor.needsEncoding
  }

  /**
   * Learns from the step that was computed.
   * @param decodeMs compute time of a text step; null if unknown.
   * @param ms duration of the whole step.
   */
  learn(step: Step | null, decodeMs: number | null, ms: number): void {
    const lane = this.#lane
    this.#lanes.learn(ms)
    lane.mediaLeadMs = lane.wasMedia ? ms : lane.mediaLeadMs - ms
    if (!lane.wasMedia) this.#otherMs = ms
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
      if (group.priority !== this.#priority) continue
      const isOfLane = group.work.adapter === this.#lane.adapter
      if (sequence.isFilled) {
        if (isOfLane) decoding.push(running)
        continue
      }
      const cursor = sequence.cursor ?? prefixCursor(sequence.parent)
      if (cursor === null || seen.has(cursor)) continue
      seen.add(cursor)
      const prefill = { cursor, group, sequence: sequence.cursor === cursor ? sequence : null }
      all.push(prefill)
      if (!isOfLane) continue
      if (cursor.media === null) texts.push(prefill)
      else if (!this.#isForEncoder(cursor)) media.push(prefill)
    }
    this.#aside?.begin(all, this.#number)
    return { decoding, texts, media }
  }

  /** Number of running groups without images. Those with images tolerate somewhat longer steps. */
  get #groupsWithoutImages(): number {
    const groups = new Set(this.#manager.running.map(({ group }) => group))
    return [...groups].filter(({ work }) => work.usage.every(({ imageTokens }) => imageTokens === 0)).length
  }

  /**
   * Media get at most every other step, and none within a round. Beside a long prompt they get half of the time: encoding an
   * image may take as long as ten steps.
   */
  #isMediaTurn({ decoding, texts, media }: Needs): boolean {
    if (media.length === 0) return false
    if (decoding.length + texts.length === 0 || this.#gathers(decoding, texts)) return true
    if (this.#lane.mediaLeadMs > 0 && this.#turns.hasLong(texts)) return false
    const due = this.#due(decoding).length
    return !this.#lane.wasMedia && (due === 0 || due === decoding.length)
  }

  /** Whether text waits for media. Transient work need not be read token by token. */
  #gathers(decoding: readonly RunningSequence[], texts: readonly Prefill[]): boolean {
    const rows = texts.reduce((sum, { cursor }) => sum + cursor.remaining, decoding.length)
    return rows < GATHERED_ROWS && [...decoding, ...texts].every(({ group }) => group.isTransient)
  }

  /** Sequences that have not got their token in this round. */
  #due(decoding: readonly RunningSequence[]): readonly RunningSequence[] {
    return decoding.filter(({ sequence }) => sequence.round !== this.#lane.round)
  }

  #mediaStep({ decoding, texts, media }: Needs): Step | null {
    const number = this.#number
    // The prefill that has waited longest, so that a prompt with many images does not delay the others.
    const prefill = media.reduce((a, b) => (b.cursor.lastMediaStep < a.cursor.lastMediaStep ? b : a))
    const { cursor } = prefill
    try {
      if (cursor.needsEncoding) {
        // There is one encoder, and it completes the media that it has begun.
        const begun = media.find((other) => other.cursor.isEncoding) ?? prefill
        return {
          type: 'encode',
          number,
          adapter: this.#lane.adapter,
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
      return { type: 'media', number, adapter: this.#lane.adapter, promptTokens: rows, prefill, rows }
    } catch (error) {
      throw new StepError([prefill.group], error)
    }
  }

  /** Duration of an encoder turn: as long as the steps around it; otherwise the encoder would get little time. */
  #encodeMs(takesTurns: boolean): number {
    const { stepMs, makesWay } = this.#pace
    return takesTurns && !makesWay ? Math.max(stepMs, this.#otherMs) : stepMs
  }

  #textStep(needs: Needs): Step | null {
    const { kv } = this.#loaded
    let { decoding, texts } = needs
    const besidePrompts = texts.length > 0
    const isApart = this.#isApart(needs)
    this.#lane.wasPrompt = isApart && !this.#lane.wasPrompt
    if (this.#lane.wasPrompt) decoding = []
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
   * Whether prefill and decode rows get separate, alternating steps. With tiled attention, mixing them wastes more than
   * reading the weights once saves.
   */
  #isApart({ decoding, texts }: Needs): boolean {
    const { tileRows } = this.#loaded.compute
    if (tileRows === null || decoding.length < FEW_ROWS || texts.length === 0) return false
    const rowsOf = ({ remaining, kvSequence }: PrefillCursor) =>
      Math.min(remaining, this.#pace.rowsWithin(this.#pace.stepMs, kvSequence.cells))
    return decoding.length + texts.reduce((rows, { cursor }) => rows + rowsOf(cursor), 0) >= tileRows
  }

  /** Sequences to decode in this step. Beside prompts, or in turn with them, all that are due are decoded together. */
  #rows(decoding: readonly RunningSequence[], besidePrompts: boolean): readonly RunningSequence[] {
    if (decoding.length === 0) return []
    let due = this.#due(decoding)
    if (due.length === 0) {
      this.#lane.round++
      due = decoding
    }
    const wanted = besidePrompts ? due.length : this.#splitter.firstOf(due.length)
    return due.slice(0, Math.ceil(wanted / Math.ceil(wanted / this.#mostNext)))
  }

  /** Maximum decode rows of one step. */
  get #mostNext(): number {
    const { context, compute } = this.#loaded
    return Math.min((compute.tileRows ?? Number.POSITIVE_INFINITY) - 1, context.batch.capacity)
  }

  /** Adds draft tokens as far as their rows pay off. Beside prompts, batches are large already. */
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
    this.#manager.reuse.provide(rows)
    // A draft preempts no sequence.
    if (kv.freeCells < rows) return plain()
    return decoding.map(({ group, sequence }, at) => {
      const { tokens } = drafts[at]!
      return { group, sequence, draft: tokens.slice(0, lengths[at]) }
    })
  }

  /** Fills the rest of the batch with prompt rows, within the time of a step. */
  #fill(next: readonly RunningSequence[], texts: readonly Prefill[]): Step | null {
    const { context, kv } = this.#loaded
    const decoding = this.#draft(next, texts)
    const decodingRows = decoding.reduce((sum, { draft }) => sum + 1 + draft.length, 0)
    const all = texts.reduce((sum, { cursor }) => sum + cursor.remaining + 1, decodingRows)
    this.#manager.reuse.provide(Math.min(context.batch.capacity, all))
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
    const { adapter, round } = this.#lane
    return { type: 'text', number: this.#number, adapter, round, promptTokens, decoding, prefills, rows, cellsRead }
  }
}

/** The cursor over the part of a shared prefix that is being prefilled. */
function prefixCursor(shared: SharedPrefix | null): PrefillCursor | null {
  let cursor: PrefillCursor | null = null
  for (let prefix = shared; prefix !== null; prefix = prefix.parent) cursor = prefix.cursor ?? cursor
  return cursor
}
