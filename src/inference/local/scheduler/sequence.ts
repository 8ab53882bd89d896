import type { KvSequence } from '../cache/kv-cache.ts'
import type { TokenSampler } from '../native/sampler.ts'
import type { Repetition } from '../sampling/repetition.ts'
import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import type { AdmittedBranch } from './admission.ts'
import { countCells, PrefillCursor } from './prefill-cursor.ts'
import type { SequenceGroup } from './sequence-group.ts'
import type { SharedPrefix } from './shared-prefix.ts'
import { TextStream } from './text-stream.ts'

/** A completion from its start to its end. */
export class Sequence {
  readonly request: SequenceGroup
  readonly branch: AdmittedBranch
  readonly branchIndex: number
  readonly index: number
  /** What it forks; null when it shares its prompt with no other. */
  readonly stem: SharedPrefix | null
  /** Its own prompt after the stem, without the last token. */
  readonly prompt: readonly PromptChunk[]
  readonly promptCells: number
  readonly sampler: TokenSampler
  readonly text = new TextStream()
  readonly #repetition: Repetition | null
  /** Generated so far. All but the last are in the KV cache while it runs. */
  readonly tokens: number[] = []
  /** Of the last tokens, those whose text is not sent yet, because it is none or no whole character. */
  silentTokens = 0
  /** Rank among all completions by their first start; those that never started have none. */
  age = Number.POSITIVE_INFINITY
  /** Null while it waits: for its turn, for room, or for its stem. */
  sequence: KvSequence | null = null
  /** Null before it has a sequence, and when only its next token is still to be decoded. */
  feed: PrefillCursor | null = null
  #jump: PrefillCursor | null = null
  /** Row of the current batch, or -1. */
  row = -1
  /** The last round of decoding that it took part in. */
  round = 0

  constructor(
    request: SequenceGroup,
    place: { readonly branch: AdmittedBranch; readonly branchIndex: number; readonly index: number },
    source: { readonly stem: SharedPrefix | null; readonly prompt: readonly PromptChunk[] },
    { sampler, repetition }: { readonly sampler: TokenSampler; readonly repetition: Repetition | null },
  ) {
    this.request = request
    this.branch = place.branch
    this.branchIndex = place.branchIndex
    this.index = place.index
    this.stem = source.stem
    this.prompt = source.prompt
    this.promptCells = countCells(source.prompt)
    this.sampler = sampler
    this.#repetition = repetition
  }

  /** Whether it waits for nothing but its next token. */
  get isDecoding(): boolean {
    return this.sequence !== null && this.feed === null
  }

  get nextToken(): number {
    return this.tokens.at(-1) ?? this.branch.lastToken
  }

  /** Follows new tokens. @returns whether the reply goes round in circles; a thought that does is ended instead. */
  goesInCircles(tokens: readonly number[]): boolean {
    let isStuck = false
    for (const token of tokens) isStuck = this.#repetition?.push(token) === true || isStuck
    if (!isStuck || this.sampler.endThought?.() !== true) return isStuck
    this.#repetition?.reset()
    return false
  }

  /** Has the last tokens computed in one batch, of which so many follow one that was sampled. */
  jump(count: number): void {
    const tokens = Int32Array.from(this.tokens.slice(-count - 1, -1))
    this.#jump = new PrefillCursor(this.sequence!, [{ type: 'text', tokens }], 0)
    this.feed = this.#jump
  }

  /** Whether what is fed now is part of the completion itself. */
  get isJumping(): boolean {
    return this.feed !== null && this.feed === this.#jump
  }

  /** Prompt after the stem and, when it was interrupted, the tokens to compute anew. */
  get pendingChunks(): readonly PromptChunk[] {
    if (this.tokens.length === 0) return this.prompt
    const tokens = Int32Array.of(this.branch.lastToken, ...this.tokens.slice(0, -1))
    return [...this.prompt, { type: 'text', tokens }]
  }

  /** Cells that it takes after its stem, up to and with the next token to decode. */
  get pendingCells(): number {
    return this.promptCells + this.tokens.length + 1
  }
}
