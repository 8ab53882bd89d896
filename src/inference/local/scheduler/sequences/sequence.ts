import type { EngineEvent, FinishEvent, TokenLogProb } from '../../../contract/generation.ts'
import type { Repetition } from '../../../contract/repetition.ts'
import { ReplyText } from '../../../contract/reply-text.ts'
import type { KvCache } from '../../cache/kv-cache.ts'
import type { Batch } from '../../native/batch.ts'
import type { Context } from '../../native/context.ts'
import type { RowAsk } from '../../native/device/device-rows.ts'
import type { Model } from '../../native/model.ts'
import type { LogProbs } from '../../sampling/log-prob-sampler.ts'
import type { TokenSampler } from '../../sampling/sampler.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { AdmittedBranch } from '../admission.ts'
import { type Draft, Drafter } from '../batch/drafter.ts'
import { countCells, type PrefillCursor } from '../batch/prefill-cursor.ts'
import { KvHolder } from './kv-holder.ts'
import type { SharedPrefix } from './shared-prefix.ts'

export interface SequenceParts {
  readonly sampler: TokenSampler
  readonly repetition: Repetition | null
  /** Log-probabilities of the sampled tokens; null if the request asks for none. */
  readonly logProbs?: LogProbs | null
}

type SequenceModel = Pick<Model, 'isEndOfGeneration' | 'piece'>

/** The result of a step for a sequence. */
export interface Generated {
  /** Events for the client: text, once characters are complete, and the end. */
  readonly events: readonly EngineEvent[]
  readonly tokens: number
  /** Number of accepted draft tokens. */
  readonly agreed: number
  /** Why sampling cannot continue: its constraint cannot be satisfied. */
  readonly error: Error | null
}

/**
 * One completion from its start to its end. It owns its tokens, its sampler and the text that has not been sent yet. The
 * sequence manager admits and preempts it, the batch builder asks it for drafts, the model runner has it generate.
 */
export class Sequence extends KvHolder {
  readonly branch: AdmittedBranch
  readonly branchIndex: number
  /** Its index among the completions of its branch. */
  readonly index: number
  /** Null if it shares its prompt with no other sequence. */
  readonly parent: SharedPrefix | null
  /** Position among all sequences in order of their first admission; infinite before it. */
  rank = Number.POSITIVE_INFINITY
  /** The rest of the prompt, without the last token. */
  readonly #prompt: readonly PromptChunk[]
  readonly #promptCells: number
  readonly #sampler: TokenSampler
  readonly #repetition: Repetition | null
  readonly #logProbs: LogProbs | null
  readonly #text: ReplyText
  readonly #tokens: number[] = []
  /** Null before the first draft. */
  #drafter: Drafter | null = null
  /** Number of tokens that the drafter has read. */
  #drafted = 0
  /** Number of sampled, not forced, tokens. */
  #sampledTokens = 0
  /** Draft tokens in the rows after its next token. */
  #draft: readonly number[] = []
  /** The cursor over tokens that a constraint forced. */
  #jump: PrefillCursor | null = null
  #round = 0
  #isFinished = false

  constructor(
    origin: { readonly branch: AdmittedBranch; readonly branchIndex: number; readonly index: number },
    source: { readonly parent: SharedPrefix | null; readonly prompt: readonly PromptChunk[] },
    { sampler, repetition, logProbs = null }: SequenceParts,
  ) {
    super()
    this.branch = origin.branch
    this.branchIndex = origin.branchIndex
    this.index = origin.index
    this.parent = source.parent
    this.#prompt = source.prompt
    this.#promptCells = countCells(source.prompt)
    this.#sampler = sampler
    this.#repetition = repetition
    this.#logProbs = logProbs
    this.#text = new ReplyText({ branch: origin.branchIndex, completion: origin.index }, logProbs !== null)
  }

  /** Tokens generated so far. While it decodes, all but the newest are in the KV cache. */
  get tokens(): readonly number[] {
    return this.#tokens
  }

  /** The rest of the prompt and, after a preemption, the tokens to recompute. */
  get chunks(): readonly PromptChunk[] {
    if (this.#tokens.length === 0) return this.#prompt
    const tokens = Int32Array.of(this.branch.lastToken, ...this.#tokens.slice(0, -1))
    return [...this.#prompt, { type: 'text', tokens }]
  }

  /** All of the prompt but its last token. */
  get prompt(): readonly PromptChunk[] {
    const parts: (readonly PromptChunk[])[] = [this.#prompt]
    for (let prefix = this.parent; prefix !== null; prefix = prefix.parent) parts.unshift(prefix.chunks)
    return parts.flat()
  }

  get cells(): number {
    return this.#promptCells + this.#tokens.length
  }

  get wasAdmitted(): boolean {
    return this.rank !== Number.POSITIVE_INFINITY
  }

  /** Whether the current prefill is of forced tokens, not of the prompt. */
  get isJumping(): boolean {
    return this.#jump !== null && this.cursor === this.#jump
  }

  /** The last decode round that it took part in. */
  get round(): number {
    return this.#round
  }

  get isFinished(): boolean {
    return this.#isFinished
  }

  /** Maximum of further tokens. */
  get tokensLeft(): number {
    return this.branch.maxTokens - this.#tokens.length
  }

  /** Drafts at most `most` next tokens. The last token that fits its limit is never drafted. */
  propose(most: number): Draft {
    this.#drafter ??= this.#createDrafter()
    while (this.#drafted < this.#tokens.length) this.#drafter.push(this.#tokens[this.#drafted++]!)
    const sampled = this.#tokens.length === 0 ? 1 : this.#sampledTokens / this.#tokens.length
    return this.#drafter.propose(Math.min(most, this.tokensLeft - 1), sampled)
  }

  /**
   * Adds its next token and its draft to the batch.
   * @returns the first of its rows, from which sampling starts.
   */
  addRows(batch: Batch, kv: KvCache, round: number, draft: readonly number[] = []): number {
    const { kvSequence } = this
    if (kvSequence === null) throw new Error('A sequence without cells cannot be decoded.')
    const { position, id } = kvSequence
    const row = batch.add(this.#tokens.at(-1) ?? this.branch.lastToken, position, id, true)
    for (const [at, token] of draft.entries()) batch.add(token, position + at + 1, id, true)
    kv.grow(kvSequence, 1 + draft.length, 1 + draft.length)
    this.#draft = draft
    this.#round = round
    return row
  }

  /** The sampling requests for its rows of the batch, as far as they are known before the step. */
  asks(row: number): RowAsk[] {
    const asks: RowAsk[] = []
    try {
      for (let at = 0; at <= this.#draft.length; at++) {
        const ask = this.#sampler.ask(this.#draft.slice(0, at))
        if (ask !== null) asks.push({ row: row + at, ask })
      }
    } catch {
      // A constraint that cannot be satisfied fails again in `generate`.
    }
    return asks
  }

  /**
   * Samples from its rows of the decoded batch, in order, and appends the tokens. The row of a draft token is used only if
   * that token and all before it are accepted, so the sampler never sees a rejected token. Rejected draft tokens are removed
   * from the KV cache.
   * @returns events for the client, and the number of accepted draft tokens.
   */
  generate(context: Context, row: number, kv: KvCache, model: SequenceModel): Generated {
    const draft = this.#draft
    const events: EngineEvent[] = []
    const before = this.#tokens.length
    /** Number of accepted draft tokens. */
    let agreed = 0
    let error: Error | null = null
    try {
      for (;;) {
        events.push(...this.#append(this.#sampler.sample(context, row + agreed), model))
        const appended = this.#tokens.length - before
        while (agreed < appended && agreed < draft.length && this.#tokens[before + agreed] === draft[agreed]) agreed++
        if (this.#isFinished || agreed < appended) break
      }
    } catch (thrown) {
      error = thrown instanceof Error ? thrown : new Error(String(thrown))
    }
    this.#draft = []
    kv.shrink(this.kvSequence!, draft.length - agreed)
    const uncomputed = this.#tokens.length - before - agreed
    if (uncomputed > 1 && !this.#isFinished) this.#computeForced(uncomputed - 1)
    return { events, tokens: this.#tokens.length - before, agreed, error }
  }

  /**
   * Appends a sampled token and the tokens that the constraint forces after it.
   * @returns text, once characters are complete, and the end.
   */
  #append(sampled: number, model: SequenceModel): EngineEvent[] {
    if (model.isEndOfGeneration(sampled)) return [this.finish('stop', this.#logProbs?.of([sampled])[0])]
    const tokens = [sampled, ...(this.#sampler.forced?.(this.tokensLeft - 1) ?? [])]
    this.#tokens.push(...tokens)
    this.#sampledTokens++
    const pieces = tokens.map((token) => model.piece(token))
    const text = this.#text.push(pieces, this.#logProbs?.of(tokens) ?? [])
    const events: EngineEvent[] = text === null ? [] : [text]
    const isStuck = this.#isRepeating(tokens)
    if (isStuck || this.tokensLeft <= 0) events.push(this.finish('length'))
    return events
  }

  /**
   * Ends it. It may have no tokens.
   * @param end the token with which the model ended it, with its log-probabilities, if requested.
   */
  finish(reason: FinishEvent['reason'], end?: TokenLogProb): FinishEvent {
    this.#isFinished = true
    return {
      type: 'finish',
      branch: this.branchIndex,
      completion: this.index,
      reason,
      completionTokens: this.#tokens.length,
      ...(this.#sampler.thoughtInterrupted ? { thoughtInterrupted: true } : {}),
      ...(end === undefined ? {} : { end }),
    }
  }

  #createDrafter(): Drafter {
    const drafter = new Drafter()
    drafter.read(this.prompt)
    drafter.read([{ type: 'text', tokens: Int32Array.of(this.branch.lastToken) }])
    return drafter
  }

  /** Prefills the last `count` forced tokens, except the newest. */
  #computeForced(count: number): void {
    this.#jump = this.continueWith([{ type: 'text', tokens: Int32Array.from(this.#tokens.slice(-count - 1, -1)) }])
  }

  /** @returns whether the reply repeats itself endlessly. A repeating thought is ended instead, and the reply goes on. */
  #isRepeating(tokens: readonly number[]): boolean {
    let isStuck = false
    for (const token of tokens) isStuck = this.#repetition?.push(token) === true || isStuck
    if (!isStuck || this.#sampler.endThought?.() !== true) return isStuck
    this.#repetition?.reset()
    return false
  }
}
