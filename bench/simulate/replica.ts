import { type Piece, PrefixCache } from './prefix-cache.ts'
import type { Timeline } from './timeline.ts'

/** How long the steps of a replica take, and what fits into one. Times in ms. */
export interface ReplicaModel {
  /** Reading the weights, and what the host does for each step. */
  readonly stepMs: number
  /** Each sequence of the batch. */
  readonly sequenceMs: number
  /** Reading a token of a sequence's KV cache. */
  readonly cachedTokenMs: number
  /** Computing a token of a prompt. */
  readonly promptTokenMs: number
  /** Encoding one picture. */
  readonly pictureMs: number
  /** Sequences in a batch, and prompt tokens in a step. */
  readonly maxSequences: number
  readonly maxPromptTokens: number
  /** Tokens that the KV cache holds. */
  readonly kvTokens: number
}

/** One sequence: a prompt and its reply. */
export interface Sequence {
  readonly prompt: readonly Piece[]
  /** Pictures that are encoded where the whole prompt is new. */
  readonly pictures: number
  readonly replyTokens: number
  /** Called when the first token is there, and the last. */
  first(): void
  done(): void
}

interface Running {
  readonly sequence: Sequence
  readonly promptTokens: number
  /** Prompt tokens that are still to be computed. */
  missing: number
  written: number
}

/** A GPU with continuous batching and a prefix cache, as vLLM has them. */
export class Replica {
  readonly #timeline: Timeline
  readonly #model: ReplicaModel
  readonly #cache = new PrefixCache()
  readonly #waiting: Sequence[] = []
  #batch: Running[] = []
  #usedTokens = 0
  #isStepping = false
  /** Sequences that it has, waiting or running. */
  load = 0
  steps = 0
  /** Sequences of all steps together. */
  stepped = 0
  promptTokens = 0
  cachedTokens = 0
  encodedPictures = 0

  constructor(timeline: Timeline, model: ReplicaModel) {
    this.#timeline = timeline
    this.#model = model
  }

  add(sequence: Sequence): void {
    this.load++
    this.#waiting.push(sequence)
    if (!this.#isStepping) this.#step()
  }

  #step(): void {
    let encodeMs = this.#admit()
    const { stepMs, sequenceMs, cachedTokenMs, promptTokenMs, maxPromptTokens } = this.#model
    if (this.#batch.length === 0) {
      this.#isStepping = false
      return
    }
    this.#isStepping = true
    let room = maxPromptTokens
    let context = 0
    const advanced: Running[] = []
    for (const running of this.#batch) {
      const computed = Math.min(running.missing, room)
      room -= computed
      running.missing -= computed
      context += running.promptTokens + running.written
      if (running.missing === 0) advanced.push(running)
    }
    encodeMs += stepMs + sequenceMs * this.#batch.length + cachedTokenMs * context
    const ms = encodeMs + promptTokenMs * (maxPromptTokens - room)
    this.steps++
    this.stepped += this.#batch.length
    this.#timeline.after(ms, () => {
      for (const running of advanced) this.#write(running)
      this.#step()
    })
  }

  /** Takes sequences into the batch while they fit. @returns the time that their pictures take. */
  #admit(): number {
    const { maxSequences, kvTokens, pictureMs } = this.#model
    let ms = 0
    let taken = 0
    for (const sequence of this.#waiting) {
      const promptTokens = sequence.prompt.reduce((sum, { tokens }) => sum + tokens, 0)
      const needed = promptTokens + sequence.replyTokens
      if (this.#batch.length >= maxSequences || this.#usedTokens + needed > kvTokens) break
      taken++
      // The last token is always computed: the first of the reply comes from it.
      const cached = Math.min(this.#cache.find(sequence.prompt), promptTokens - 1)
      // The picture is the second piece.
      if (cached < sequence.prompt[0]!.tokens + (sequence.prompt[1]?.tokens ?? 0) - 1) {
        ms += pictureMs * sequence.pictures
        this.encodedPictures += sequence.pictures
      }
      this.promptTokens += promptTokens
      this.cachedTokens += cached
      this.#usedTokens += needed
      // As in vLLM, others share the blocks as soon as they are given out.
      this.#cache.keep(sequence.prompt, kvTokens - this.#usedTokens)
      this.#batch.push({ sequence, promptTokens, missing: promptTokens - cached, written: 0 })
    }
    this.#waiting.splice(0, taken)
    return ms
  }

  #write(running: Running): void {
    const { sequence } = running
    if (running.written++ === 0) sequence.first()
    if (running.written < sequence.replyTokens) return
    this.#batch = this.#batch.filter((other) => other !== running)
    this.#usedTokens -= running.promptTokens + sequence.replyTokens
    const reply = { key: replyKey(sequence.prompt), tokens: sequence.replyTokens }
    this.#cache.keep([...sequence.prompt, reply], this.#model.kvTokens - this.#usedTokens)
    this.load--
    sequence.done()
  }
}

/** The key under which the reply to a prompt is a piece of longer prompts. */
export function replyKey(prompt: readonly Piece[]): string {
  return `${prompt.at(-1)!.key}+`
}
