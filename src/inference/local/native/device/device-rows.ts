import koffi from 'koffi'
import { type Ask, type Chosen, isSame, rankingOf, sampleFromTopK } from '../choice.ts'
import { declareIn } from '../declare.ts'
import type { Pointer } from '../structs.ts'

/** The functions of `device/logits.cu`. */
export type DeviceChoice = NonNullable<ReturnType<typeof bindDeviceChoice>>

/** Layout of asks and answers in `device/logits.cu`; MAX_LIST is the maximum k of a list. */
const ASK_NUMBERS = 10
const MAX_LIST = 64
const ANSWER_NUMBERS = 6 + 5 * MAX_LIST
/** Offsets of an answer's lists. */
const TOP_K_AT = 6
const RANKED_AT = TOP_K_AT + 3 * MAX_LIST

/** Kinds of sampling there. */
const [NONE, ARGMAX, SAMPLE, TOP_K] = [0, 1, 2, 3] as const
const WORD_BITS = 32

/** @param path of a backend's library. @returns null if it was not compiled with `device/logits.cu`. */
export function bindDeviceChoice(path: string) {
  const library = koffi.load(path)
  try {
    library.symbol('lookout_chooser_new')
  } catch {
    return null
  }
  const declare = declareIn(library)
  return {
    create: declare('pointer lookout_chooser_new(int32 vocabularySize)'),
    free: declare('void lookout_chooser_free(pointer chooser)'),
    arm: declare('void lookout_chooser_arm(pointer chooser, int32 rows)'),
    keeps: declare('bool lookout_chooser_keeps(pointer chooser)'),
    ask: declare(
      `bool lookout_chooser_ask(pointer chooser, int32 count, doubles asks, int32s tokens, doubles amounts,
        int32 penalties, int32s masks, int32 maskCount, int32s wanted, int32 pairs)`,
    ),
    answer: declare('bool lookout_chooser_answer(pointer chooser, doubles answers, floats wanted)'),
    fetch: declare('bool lookout_chooser_fetch(pointer chooser, int32 row)'),
  }
}

/** Some logits of a row. */
export interface RowReading {
  /** By token. */
  readonly logits: ReadonlyMap<number, number>
  /** Natural logarithm of the sum of the exponentials of all. */
  readonly logSum: number
}

/** A sampling request for a row of a batch. */
export interface RowAsk {
  readonly row: number
  readonly ask: Ask
}

/**
 * The logits of a context's last step, kept on the device. Sampling is queued there after the step, and a row is copied
 * to main memory only on request.
 */
export class DeviceRows {
  readonly #native: DeviceChoice
  readonly #chooser: Pointer
  readonly #vocabularySize: number
  /** By row of the batch, its index among the rows with logits; empty if the device does not keep them. */
  #indices = new Map<number, number>()
  /** Rows that were copied to main memory. */
  readonly #fetched = new Set<number>()
  #asks: readonly RowAsk[] = []
  /** By row; null before they have been read. */
  #answers: ReadonlyMap<number, { readonly ask: Ask; readonly answer: Float64Array }> | null = null

  constructor(native: DeviceChoice, vocabularySize: number) {
    this.#native = native
    this.#vocabularySize = vocabularySize
    this.#chooser = native.create(vocabularySize)
  }

  /** Computes a step and keeps its logits on the device. @param outputs the rows that have logits, in order. */
  keep(outputs: readonly number[], compute: () => void): void {
    this.forget()
    if (outputs.length > 0) this.#native.arm(this.#chooser, outputs.length)
    try {
      compute()
    } finally {
      if (outputs.length > 0 && this.#native.keeps(this.#chooser)) {
        this.#indices = new Map(outputs.map((row, index) => [row, index]))
      }
    }
  }

  /** Drops the kept logits. */
  forget(): void {
    this.#indices.clear()
    this.#fetched.clear()
    this.#asks = []
    this.#answers = new Map()
  }

  get areKept(): boolean {
    return this.#indices.size > 0
  }

  /** Queues sampling requests after the step. */
  ask(asks: readonly RowAsk[]): void {
    const asked = asks.filter(({ row, ask }) => this.#indices.has(row) && isSupported(ask))
    this.#answers = new Map()
    if (asked.length === 0) return
    const numbers = new Float64Array(asked.length * ASK_NUMBERS)
    const tokens: number[] = []
    const amounts: number[] = []
    const masks = new Map<Int32Array, number>()
    for (const [at, { row, ask }] of asked.entries()) {
      const first = tokens.length
      for (const [token, amount] of ask.penalties) {
        tokens.push(token)
        amounts.push(amount)
      }
      const { allowed, temperature, topK, topP, drawSeed, ranked } = ask
      if (allowed !== undefined && !masks.has(allowed)) masks.set(allowed, masks.size)
      const mask = allowed === undefined ? -1 : masks.get(allowed)!
      const kind = temperature === 0 ? ARGMAX : topK > 0 ? TOP_K : SAMPLE
      numbers.set(
        [this.#indices.get(row)!, kind, mask, first, tokens.length, temperature, topP, drawSeed, topK, ranked ?? -1],
        at * ASK_NUMBERS,
      )
    }
    const isAsked = this.#native.ask(
      this.#chooser,
      asked.length,
      numbers,
      Int32Array.from(tokens),
      Float64Array.from(amounts),
      tokens.length,
      this.#join([...masks.keys()]),
      masks.size,
      new Int32Array(0),
      0,
    )
    if (!isAsked) return
    this.#asks = asked
    this.#answers = null
  }

  /** The answer to a row's request; null if there was none, or if the device leaves it to the CPU. Blocks. */
  chosen(row: number, ask: Ask): Chosen | null {
    this.#answers ??= this.#read()
    const answered = this.#answers.get(row)
    return answered !== undefined && isSupported(ask) && isSame(answered.ask, ask)
      ? chosenOf(answered.answer, ask)
      : null
  }

  /**
   * Reads logits and log-sum-exps. Blocks.
   * @param wanted tokens of each row.
   * @returns the rows that the device can read; the others are left to the CPU.
   */
  read(wanted: ReadonlyMap<number, ReadonlySet<number>>): Map<number, RowReading> {
    const rows = [...wanted].filter(([row]) => this.#indices.has(row))
    this.#asks = []
    this.#answers = new Map()
    const numbers = rows.flatMap(([row]) => [this.#indices.get(row)!, NONE, -1, 0, 0, 0, 1, 0, 0, 0])
    const pairs = rows.flatMap(([row, tokens]) => [...tokens].flatMap((token) => [this.#indices.get(row)!, token]))
    const none = new Int32Array(0)
    const count = pairs.length / 2
    const answers = new Float64Array(rows.length * ANSWER_NUMBERS)
    const logits = new Float32Array(count)
    const isRead =
      rows.length > 0 &&
      this.#native.ask(
        ...([this.#chooser, rows.length, Float64Array.from(numbers), none, new Float64Array(0), 0] as const),
        ...([none, 0, Int32Array.from(pairs), count] as const),
      ) &&
      this.#native.answer(this.#chooser, answers, logits)
    const found = new Map<number, RowReading>()
    if (!isRead) return found
    let at = 0
    for (const [index, [row, tokens]] of rows.entries()) {
      const own = new Map(Array.from(tokens, (token) => [token, logits[at++]!]))
      const [isUnsure, , , logSum] = answers.subarray(index * ANSWER_NUMBERS)
      if (isUnsure === 0) found.set(row, { logits: own, logSum: logSum! })
    }
    return found
  }

  /** Copies a row to llama.cpp's buffer of logits. Blocks. */
  fetch(row: number): void {
    const index = this.#indices.get(row)
    if (index === undefined || this.#fetched.has(row)) return
    if (!this.#native.fetch(this.#chooser, index)) throw new Error('Cannot copy logits from the device.')
    this.#fetched.add(row)
  }

  close(): void {
    this.#native.free(this.#chooser)
  }

  #join(masks: readonly Int32Array[]): Int32Array {
    const words = Math.ceil(this.#vocabularySize / WORD_BITS)
    const joined = new Int32Array(masks.length * words)
    for (const [at, mask] of masks.entries()) joined.set(mask.subarray(0, words), at * words)
    return joined
  }

  #read(): ReadonlyMap<number, { readonly ask: Ask; readonly answer: Float64Array }> {
    const answers = new Float64Array(this.#asks.length * ANSWER_NUMBERS)
    if (!this.#native.answer(this.#chooser, answers, new Float32Array(0))) return new Map()
    return new Map(
      this.#asks.map(({ row, ask }, at) => [
        row,
        { ask, answer: answers.subarray(at * ANSWER_NUMBERS, (at + 1) * ANSWER_NUMBERS) },
      ]),
    )
  }
}

/** Whether the device can answer a request, for which its lists must be long enough. */
function isSupported({ temperature, topK, minP = 0, repeated = null, ranked }: Ask): boolean {
  if (repeated !== null || (temperature > 0 && minP > 0)) return false
  return (temperature === 0 || topK <= MAX_LIST) && (ranked ?? 0) <= MAX_LIST
}

function chosenOf(answer: Float64Array, ask: Ask): Chosen | null {
  const [isUnsure, likeliest, itsLogit, total, topKCount, rankedCount] = answer
  if (isUnsure !== 0) return null
  let token = likeliest!
  let logit = itsLogit!
  if (ask.temperature > 0 && ask.topK > 0) {
    const count = Math.min(topKCount!, ask.topK)
    const [tokens, logits] = [new Int32Array(count), new Float32Array(count)]
    for (let at = 0; at < count; at++) {
      tokens[at] = answer[TOP_K_AT + 3 * at]!
      logits[at] = answer[TOP_K_AT + 3 * at + 1]!
    }
    const drawn = sampleFromTopK(tokens, logits, ask)
    if (drawn === null) return null
    token = drawn
    logit = answer[TOP_K_AT + 3 * tokens.indexOf(drawn) + 2]!
  }
  if (ask.ranked === null) return { token, ranking: null }
  const top = Array.from({ length: Math.min(rankedCount!, ask.ranked) }, (_, at) => ({
    token: answer[RANKED_AT + 2 * at]!,
    logit: answer[RANKED_AT + 2 * at + 1]!,
  }))
  return { token, ranking: rankingOf(total!, logit, top) }
}
