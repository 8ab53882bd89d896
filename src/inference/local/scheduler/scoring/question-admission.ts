import { setImmediate as nextTurn } from 'node:timers/promises'
import { getOrMake } from '../../../../lib/get-or-make.ts'
import type { PromptUsage, TokenLogProb } from '../../../contract/generation.ts'
import type { ReadQuestion, ReadWork } from '../../../contract/work.ts'
import type { Adapter } from '../../native/adapter.ts'
import type { PromptChunk, TokenisedPrompt } from '../../tokens/prompt-tokens.ts'
import { checkLength, DEFAULT_PARAM, invalid, Prompts, splitLast, splitText, textOf, usageOf } from '../admission.ts'
import { countCells } from '../batch/prefill-cursor.ts'
import type { LoadedModel } from '../loaded-model.ts'
import type { ScoringLimits } from './scoring-limits.ts'
import { createPrefix, type ScoringPrefix } from './scoring-prefix.ts'

/** Tokenised questions that fit the model. */
export interface AdmittedScoring {
  readonly questions: readonly AdmittedQuestion[]
  /** Usage without any cached tokens. */
  readonly usage: readonly PromptUsage[]
  /** Frees the native memory of media. */
  close(): void
}

export interface AdmittedQuestion {
  /** In request order. */
  readonly index: number
  readonly prefix: ScoringPrefix
  /** The chunks after the prefix that take separate calls: media, and text that is too long for one call with the replies. */
  readonly lead: readonly PromptChunk[]
  /** The last tokens, at least one. They share a call with tokens of the replies. */
  readonly tail: Int32Array
  /** Tokens of each reply, at least one. */
  readonly replies: readonly Int32Array[]
  /** Whether a reply's probability includes all continuations after it. */
  readonly goesOn: boolean
  /** Present for a piece of a text, whose tokens are rated one by one. */
  readonly text?: TextPiece
}

/** A piece of a text that one call computes. The pieces of a text follow each other. */
interface TextPiece {
  readonly topLogProbs: number
  /** The results for the text so far. All pieces add to it. */
  readonly scored: TokenLogProb[]
  readonly isLast: boolean
  /** Cells of the whole text. */
  readonly cells: number
  /** The prefix of the previous piece, with which this one's begins; null for the first. */
  readonly before: ScoringPrefix | null
}

/** Maximum tokenisation time in one turn of the event loop, in ms. Steps run between turns. */
const TURN_MS = 5

/**
 * Tokenises the work and checks that it fits, a few questions at a time: there may be 100,000 replies.
 * @throws FailureError when a question does not fit the context window or the model does not support a part of it.
 */
export async function admitScoring(
  loaded: LoadedModel,
  work: ReadWork,
  limits: ScoringLimits,
  signal: AbortSignal,
): Promise<AdmittedScoring> {
  const { prefix: parts, questions, organisation } = work
  const prompts = new Prompts(loaded, work)
  try {
    const prefix = prompts.read(parts, questions[0]?.param ?? DEFAULT_PARAM)
    const splitPrefix = prefixSplitter(prefix.chunks, organisation, loaded.adapterOf(work))
    const readReplies = replyReader(loaded, limits)
    const admitted: AdmittedQuestion[] = []
    const usage: PromptUsage[] = []
    let turnEnds = performance.now() + TURN_MS
    for (const [index, question] of questions.entries()) {
      if (performance.now() > turnEnds) {
        await nextTurn()
        signal.throwIfAborted()
        turnEnds = performance.now() + TURN_MS
      }
      const param = question.param ?? DEFAULT_PARAM
      const suffix = prompts.read(question.suffix, param, prefix)
      if (question.topLogProbs !== undefined) {
        const tokens = textOf(suffix.chunks)
        checkLength(tokens.length, 0, loaded.info.contextTokens, param)
        // The completion that follows the text is charged for it.
        usage.push({ promptTokens: 0, imageTokens: 0, audioTokens: 0, cachedTokens: 0 })
        const { topLogProbs } = question
        const adapter = loaded.adapterOf(work)
        admitted.push(...piecesOf(tokens, { index, topLogProbs, nodes: limits.nodes, organisation, adapter }))
        continue
      }
      const tokens = readReplies(question, suffix.tokens === 0 ? prefix : suffix)
      const longest = tokens.reduce((most, { length }) => Math.max(most, length), 0)
      checkLength(prefix.tokens + suffix.tokens, longest, loaded.info.contextTokens, param)
      // The first question is charged for the prefill that the others share.
      usage.push(usageOf(prefix, suffix, index === 0 ? 0 : prefix.tokens))
      // A question without a suffix takes the last token of the prefix, so its prefix is shorter.
      const [own, chunks] = splitPrefix(suffix.chunks, param)
      const { goesOn = false } = question
      admitted.push({ index, prefix: own, ...cutTail(chunks, tokens, limits, param), replies: tokens, goesOn })
    }
    return { questions: admitted, usage, close: () => prompts.close() }
  } catch (error) {
    prompts.close()
    throw error
  }
}

interface TextTerms extends Pick<AdmittedQuestion, 'index'>, Pick<TextPiece, 'topLogProbs'> {
  /** Maximum tokens of a piece after its first one. */
  readonly nodes: number
  readonly organisation: string
  readonly adapter: Adapter | null
}

/** A text as questions: each asks for some of its tokens as a reply to all tokens before them. */
function piecesOf(tokens: Int32Array, { index, topLogProbs, nodes, organisation, adapter }: TextTerms) {
  // The keys of all prefixes share the memory of the longest one: a long text has hundreds.
  const whole = createPrefix([{ type: 'text', tokens }], organisation, adapter)
  const scored: TokenLogProb[] = []
  const pieces: AdmittedQuestion[] = []
  for (let at = 0; at === 0 || at < tokens.length - 1; at += nodes) {
    const chunks: PromptChunk[] = at === 0 ? [] : [{ type: 'text', tokens: tokens.subarray(0, at) }]
    const isLast = at + nodes >= tokens.length - 1
    const text = { topLogProbs, scored, isLast, cells: tokens.length, before: pieces.at(-1)?.prefix ?? null }
    // Nothing follows a single token, so any reply will do.
    const reply = tokens.length === 1 ? tokens : tokens.subarray(at + 1, at + 1 + nodes)
    const prefix = { ...whole, name: `${whole.name} ${at}`, key: whole.key.slice(at)!, chunks, cells: at }
    pieces.push({ index, prefix, lead: [], tail: tokens.subarray(at, at + 1), replies: [reply], goesOn: true, text })
  }
  return pieces
}

/**
 * Returns a function that gives a question's prefix and the rest: all questions with a suffix share one prefix, and all
 * without share another.
 * @param chunks of the common prefix.
 */
function prefixSplitter(chunks: readonly PromptChunk[], organisation: string, adapter: Adapter | null) {
  let whole: ScoringPrefix | null = null
  let shorter: readonly [ScoringPrefix, readonly PromptChunk[]] | null = null
  return (suffix: readonly PromptChunk[], param: string): readonly [ScoringPrefix, readonly PromptChunk[]] => {
    if (countCells(suffix) > 0) {
      whole ??= createPrefix(chunks, organisation, adapter)
      return [whole, suffix]
    }
    if (shorter === null) {
      const { rest, last } = splitLast(chunks, param)
      shorter = [createPrefix(rest, organisation, adapter), [{ type: 'text', tokens: last }]]
    }
    return shorter
  }
}

/** Tokenises replies as the model would write them. Many questions have the same replies. */
function replyReader(loaded: LoadedModel, { nodes }: ScoringLimits) {
  const known = new Map<string, Int32Array>()
  return ({ replies, param = DEFAULT_PARAM }: ReadQuestion, before: TokenisedPrompt): Int32Array[] => {
    const last = before.chunks.findLast((chunk) => chunk.type === 'media' || chunk.tokens.length > 0)
    const ending = last?.type === 'text' ? last.tokens.at(-1) : -1
    return replies.map((text) => {
      const tokens = getOrMake(known, `${ending} ${text}`, () =>
        textOf(loaded.reader.size([{ type: 'text', text, trusted: false }], '', param, before).chunks),
      )
      if (tokens.length === 0) throw invalid('A reply has no tokens of this model.', param)
      if (tokens.length > nodes) {
        const has = `A reply has ${tokens.length} tokens`
        throw invalid(`${has}, but this model reads the probability of at most ${nodes}.`, param)
      }
      return tokens
    })
  }
}

/**
 * Splits off the last tokens, to be computed with the replies. If both do not fit into one call, all but the newest token are
 * computed once, and each part of the replies is computed with that token.
 */
function cutTail(
  chunks: readonly PromptChunk[],
  replies: readonly Int32Array[],
  { rows, nodes, leaves, isRecurrent }: ScoringLimits,
  param: string,
): Pick<AdmittedQuestion, 'lead' | 'tail'> {
  const { rest, text } = splitText(chunks, param)
  const most = replies.reduce((sum, { length }) => sum + length, 0)
  const fits = !isRecurrent && text.length + most <= rows && most <= nodes && replies.length <= leaves
  if (fits) return { lead: rest, tail: text }
  const { rest: lead, last: tail } = splitLast(chunks, param)
  return { lead, tail }
}
