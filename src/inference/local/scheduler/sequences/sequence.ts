import type { EngineEvent, FinishEvent, TextEvent, TokenLogProb } from '../../../contract/generation.ts'
import type { Repetition } from '../../../contract/repetition.ts'
import type { KvCache } from '../../cache/kv-cache.ts'
import type { Batch } from '../../native/batch.ts'
import type { Context } from '../../native/context.ts'
import type { RowAsk } from '../../native/device-rows.ts'
import type { Model } from '../../native/model.ts'
import type { LogProbs } from '../../sampling/log-prob-sampler.ts'
import type { TokenSampler } from '../../sampling/sampler.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { AdmittedBranch } from '../admission.ts'
import { type Draft, Drafter } from '../batch/drafter.ts'
import { countCells, type PrefillCursor } from '../batch/prefill-cursor.ts'
import type { SharedPrefix } from '../batch/shared-prefix.ts'
import { KvHolder } from './kv-holder.ts'
import { TextStream } from './text-stream.ts'

export interface SequenceParts {
  readonly sampler: TokenSampler
  readonly repetition: Repetition | null
  /** Of what the sampler chooses; null where nobody asks for them. */
  readonly logProbs?: LogProbs | null
}

type SequenceModel = Pick<Model, 'isEndOfGeneration' | 'piece'>

/** What a step has given a sequence. */
export interface Generated {
  /** What the client is to be told: text, when characters are whole, and the end. */
  readonly events: readonly EngineEvent[]
  readonly tokens: number
  /** How many of them had been drafted. */
  readonly agreed: number
  /** Why nothing more can be sampled: its constraint cannot be followed. */
  readonly error: Error | null
}

/**
 * One completion from its start to its end. It owns its tokens, its sampler and the text that has not been sent yet. The
 * sequence manager admits and preempts it, the batch builder asks it for drafts, the model runner has it generate.
 */
export class Sequence extends KvHolder {
  readonly branch: AdmittedBranch
  readonly branchIndex: number
  /** Among the completions of its branch. */
  readonly index: number
  /** Null when it shares its prompt with no other sequence. */
  readonly parent: SharedPrefix | null
  /** The rest of the prompt, without the last token. */
  readonly #prompt: readonly PromptChunk[]
  readonly #promptCells: number
  readonly #sampler: TokenSampler
  readonly #repetition: Repetition | null
  readonly #logProbs: LogProbs | null
  readonly #text = new TextStream()
  readonly #tokens: number[] = []
  /** Number of the last tokens whose text was not sent, because it is empty or not a whole character yet. */
  #silentTokens = 0
  /** Their log-probabilities. */
  #silentLogProbs: TokenLogProb[] = []
  #rank = Number.POSITIVE_INFINITY
  /** Null before the first draft was asked for. */
  #drafter: Drafter | null = null
  /** Number of tokens that the drafter has read. */
  #drafted = 0
  /** Number of tokens that were sampled, not forced. */
  #sampledTokens = 0
  /** What the rows after its next token were computed for. */
  #draft: readonly number[] = []
  /** The cursor over tokens that a constraint forced. */
  #jump: PrefillCursor | null = null
  #round = 0
  #isFinished = false

  constructor(
    place: { readonly branch: AdmittedBranch; readonly branchIndex: number; readonly index: number },
    source: { readonly parent: SharedPrefix | null; readonly prompt: readonly PromptChunk[] },
    { sampler, repetition, logProbs = null }: SequenceParts,
  ) {
    super()
    this.branch = place.branch
    this.branchIndex = place.branchIndex
    this.index = place.index
    this.parent = source.parent
    this.#prompt = source.prompt
    this.#promptCells = countCells(source.prompt)
    this.#sampler = sampler
    this.#repetition = repetition
    this.#logProbs = logProbs
  }

  /** Generated so far. While it decodes, all but the last are in the KV cache. */
  get tokens(): readonly number[] {
    return this.#tokens
  }

  /** The rest of the prompt and, after a preemption, the tokens to compute again. */
  get chunks(): readonly PromptChunk[] {
    if (this.#tokens.length === 0) return this.#prompt
    const tokens = Int32Array.of(this.branch.lastToken, ...this.#tokens.slice(0, -1))
    return [...this.#prompt, { type: 'text', tokens }]
  }

  get cells(): number {
    return this.#promptCells + this.#tokens.length
  }

  /** Position among all sequences in order of their first admission; infinite before it. */
  get rank(): number {
    return this.#rank
  }

  get wasAdmitted(): boolean {
    return this.#rank !== Number.POSITIVE_INFINITY
  }

  /** Whether what is being prefilled are tokens that a constraint forced, not the prompt. */
  get isJumping(): boolean {
    return this.#jump !== null && this.cursor === this.#jump
  }

  /** The last round of decoding that it took part in. */
  get round(): number {
    return this.#round
  }

  get isFinished(): boolean {
    return this.#isFinished
  }

  /** Tokens that it may still get. */
  get tokensLeft(): number {
    return this.branch.maxTokens - this.#tokens.length
  }

  /** It may run now, for the first time. */
  admit(rank: number): void {
    this.#rank = rank
  }

  /** What may come next, by what came before; at most so many tokens. The last one that it may have is never drafted. */
  propose(most: number): Draft {
    this.#drafter ??= this.#createDrafter()
    while (this.#drafted < this.#tokens.length) this.#drafter.push(this.#tokens[this.#drafted++]!)
    const sampled = this.#tokens.length === 0 ? 1 : this.#sampledTokens / this.#tokens.length
    return this.#drafter.propose(Math.min(most, this.tokensLeft - 1), sampled)
  }

  /**
   * Adds its next token to the batch, and a draft of those after it.
   * @returns the first of its rows, from which it is to be sampled.
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

  /** What will be asked of its rows of the batch, as far as that is known before the first of them is computed. */
  asks(row: number): RowAsk[] {
    const asks: RowAsk[] = []
    try {
      for (let at = 0; at <= this.#draft.length; at++) {
        const ask = this.#sampler.ask(this.#draft.slice(0, at))
        if (ask !== null) asks.push({ row: row + at, ask })
      }
    } catch {
      // A constraint that cannot be followed fails again when a token is sampled.
    }
    return asks
  }

  /**
   * Samples from its rows of the decoded batch, in order, and appends what is sampled. The row of a drafted token counts
   * only where the reply has that token and all before it, so the sampler never sees a token that the reply does not have.
   * What is left of the draft is removed from the KV cache.
   * @returns what the client is to be told, and how many drafted tokens the reply has.
   */
  generate(context: Context, row: number, kv: KvCache, model: SequenceModel): Generated {
    const draft = this.#draft
    const events: EngineEvent[] = []
    const before = this.#tokens.length
    /** Tokens of the reply that are the same as the draft's, from its beginning. */
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
   * Appends a sampled token, and the tokens that its constraint forces after it.
   * @returns text, when characters are whole, and the end.
   */
  #append(sampled: number, model: SequenceModel): EngineEvent[] {
    if (model.isEndOfGeneration(sampled)) return [this.#finish('stop')]
    const tokens = [sampled, ...(this.#sampler.forced?.(this.tokensLeft - 1) ?? [])]
    this.#tokens.push(...tokens)
    this.#sampledTokens++
    this.#silentTokens += tokens.length
    if (this.#logProbs !== null) this.#silentLogProbs.push(...this.#logProbs.of(tokens))
    const events: EngineEvent[] = []
    let text = ''
    const ends = tokens.map((token) => {
      text += this.#text.push(model.piece(token))
      return text.length
    })
    if (text !== '') events.push(this.#tell(text, ends))
    const isStuck = this.#goesInCircles(tokens)
    if (isStuck || this.tokensLeft <= 0) events.push(this.#finish('length'))
    return events
  }

  /** @param told where the texts of the last tokens end. */
  #tell(text: string, told: readonly number[]): TextEvent {
    const logProbs = this.#logProbs === null ? {} : { logProbs: this.#silentLogProbs }
    const { branchIndex: branch, index: completion } = this
    const tokens = this.#silentTokens
    const ends = tokens === 1 ? {} : { ends: [...Array<number>(tokens - told.length).fill(0), ...told] }
    const event: TextEvent = { type: 'text', branch, completion, text, tokens, ...ends, ...logProbs }
    this.#silentTokens = 0
    this.#silentLogProbs = []
    return event
  }

  /** Ends a sequence that may have no tokens. */
  finishEmpty(): EngineEvent {
    return this.#finish('length')
  }

  #finish(reason: FinishEvent['reason']): FinishEvent {
    this.#isFinished = true
    return {
      type: 'finish',
      branch: this.branchIndex,
      completion: this.index,
      reason,
      completionTokens: this.#tokens.length,
      ...(this.#sampler.thoughtInterrupted ? { thoughtInterrupted: true } : {}),
    }
  }

  #createDrafter(): Drafter {
    const drafter = new Drafter()
    const parts: (readonly PromptChunk[])[] = [this.#prompt]
    for (let prefix = this.parent; prefix !== null; prefix = prefix.parent) parts.unshift(prefix.chunks)
    for (const chunks of parts) drafter.read(chunks)
    drafter.read([{ type: 'text', tokens: Int32Array.of(this.branch.lastToken) }])
    return drafter
  }

  /** Has so many of the last tokens, before the very last, computed in one batch. */
  #computeForced(count: number): void {
    this.#jump = this.continueWith([{ type: 'text', tokens: Int32Array.from(this.#tokens.slice(-count - 1, -1)) }])
  }

  /** @returns whether the reply repeats itself without end. A thought that does is ended, and the reply goes on. */
  #goesInCircles(tokens: readonly number[]): boolean {
    let isStuck = false
    for (const token of tokens) isStuck = this.#repetition?.push(token) === true || isStuck
    if (!isStuck || this.#sampler.endThought?.() !== true) return isStuck
    this.#repetition?.reset()
    return false
  }
}
