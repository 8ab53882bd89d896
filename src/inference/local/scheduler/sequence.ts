import type { EngineEvent, FinishEvent } from '../../engine.ts'
import type { Repetition } from '../../repetition.ts'
import type { KvCache } from '../cache/kv-cache.ts'
import type { Batch } from '../native/batch.ts'
import type { Context } from '../native/context.ts'
import type { Model } from '../native/model.ts'
import type { TokenSampler } from '../sampling/sampler.ts'
import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import type { AdmittedBranch } from './admission.ts'
import { KvHolder } from './kv-holder.ts'
import { countCells, type PrefillCursor } from './prefill-cursor.ts'
import type { SharedPrefix } from './shared-prefix.ts'
import { TextStream } from './text-stream.ts'

/**
 * One completion from its start to its end. It owns its tokens, its sampler and the text that has not been sent yet. The
 * sequence manager admits and preempts it, the model runner samples from it, the scheduler appends what was sampled.
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
  readonly #text = new TextStream()
  readonly #tokens: number[] = []
  /** Number of the last tokens whose text was not sent, because it is empty or not a whole character yet. */
  #silentTokens = 0
  #rank = Number.POSITIVE_INFINITY
  /** The cursor over tokens that a constraint forced. */
  #jump: PrefillCursor | null = null
  #round = 0
  #isFinished = false

  constructor(
    place: { readonly branch: AdmittedBranch; readonly branchIndex: number; readonly index: number },
    source: { readonly parent: SharedPrefix | null; readonly prompt: readonly PromptChunk[] },
    { sampler, repetition }: { readonly sampler: TokenSampler; readonly repetition: Repetition | null },
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

  /** Adds its next token to the batch. @returns the row that it is to be sampled from. */
  addRow(batch: Batch, kv: KvCache, round: number): number {
    const { kvSequence } = this
    if (kvSequence === null) throw new Error('A sequence without cells cannot be decoded.')
    const row = batch.add(this.#tokens.at(-1) ?? this.branch.lastToken, kvSequence.position, kvSequence.id, true)
    kv.grow(kvSequence, 1, 1)
    this.#round = round
    return row
  }

  /** Samples the next token from its row of the decoded batch. @throws Error when its constraint cannot be followed. */
  sample(context: Context, row: number): number {
    return this.#sampler.sample(context, row)
  }

  /**
   * Appends a sampled token, and the tokens that its constraint forces after it.
   * @returns what the client is to be told: text, when characters are whole, and the end.
   */
  append(sampled: number, model: Pick<Model, 'isEndOfGeneration' | 'piece'>): EngineEvent[] {
    if (model.isEndOfGeneration(sampled)) return [this.#finish('stop')]
    const tokens = [sampled, ...(this.#sampler.forced?.(this.tokensLeft - 1) ?? [])]
    this.#tokens.push(...tokens)
    this.#silentTokens += tokens.length
    const events: EngineEvent[] = []
    const text = tokens.map((token) => this.#text.push(model.piece(token))).join('')
    if (text !== '') {
      const { branchIndex, index } = this
      events.push({ type: 'text', branch: branchIndex, completion: index, text, tokens: this.#silentTokens })
      this.#silentTokens = 0
    }
    if (tokens.length > 1) this.#computeForced(tokens.length - 1)
    const isStuck = this.#goesInCircles(tokens)
    if (isStuck || this.tokensLeft <= 0) events.push(this.#finish('length'))
    return events
  }

  /** Ends a sequence that may have no tokens. */
  finishEmpty(): EngineEvent {
    return this.#finish('length')
  }

  closeSampler(): void {
    this.#sampler.close()
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

  /** Has the sampled token and all but the last of so many forced ones computed in one batch. */
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
