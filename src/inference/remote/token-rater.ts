import { randomUUID } from 'node:crypto'
import { invalidRequest } from '../../lib/errors/errors.ts'
import { getOrMake } from '../../lib/get-or-make.ts'
import { logSum } from '../../lib/log-sum.ts'
import { GREEDY } from '../contract/greedy.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { ReplyTree } from '../contract/reply-tree.ts'
import type { ReadWork } from '../contract/work.ts'
import type { AdmittedBranch, BranchRun, ReplyRater, RunningCompletion } from './exchange.ts'
import type { RemotePrompt } from './prompt.ts'
import type { PromptText } from './tokens/hub-tokenizer.ts'
import type { TokenizerThreads } from './tokens/tokenizer-threads.ts'
import { type CompletionRequest, ServerFailure, type TokenWire, type UsageEvent } from './wire/wire.ts'

export interface TokenRaterParts {
  readonly wire: TokenWire
  readonly tokenizer: TokenizerThreads
  /** Tokens that end a reply. */
  readonly stopTokens: readonly number[]
  /** The tokens of a prompt and of the text generated after it. */
  continued(prompt: RemotePrompt, written: readonly number[]): readonly number[]
  /** Receives a server's report on a prompt. */
  note(run: BranchRun, said: UsageEvent, prompt: RemotePrompt): void
}

/** Number of characters before a reply that influence its tokenisation. */
const BEFORE_CHARACTERS = 64

/**
 * Requests the probabilities of replies, with one request for each place in their tree: the prompt, the tokens up to
 * that place, and the log-probabilities of the tokens that may follow. The server has the prompt cached, so a request
 * computes little more than one token.
 */
export class TokenRater implements ReplyRater<RemotePrompt> {
  readonly #parts: TokenRaterParts

  constructor(parts: TokenRaterParts) {
    this.#parts = parts
  }

  async tokensOf({ organisation, prefix, questions }: ReadWork): Promise<readonly (readonly Int32Array[])[] | null> {
    /** Groups to tokenise, without duplicates. */
    const groups: (readonly PromptText[])[] = []
    const known = new Map<string, number>()
    const add = (texts: readonly PromptText[]) => getOrMake(known, JSON.stringify(texts), () => groups.push(texts) - 1)
    const places = questions.map(({ suffix, replies }) => {
      const before = endOf(suffix) ?? endOf(prefix) ?? []
      return replies.map((text) => {
        const reply = { text, trusted: false }
        return { before: add(before), alone: add([reply]), joined: add([...before, reply]) }
      })
    })
    const tokens = await this.#parts.tokenizer.encode(groups, organisation)
    if (tokens === null) return null
    return places.map((replies, index) =>
      replies.map(({ before, alone, joined }) => {
        const reply = behind(tokens[before]!, tokens[joined]!) ?? tokens[alone]!
        if (reply.length > 0) return reply
        throw invalidRequest('A reply has no tokens of this model.', questions[index]!.param ?? 'messages')
      }),
    )
  }

  async rate(tree: ReplyTree, question: AdmittedBranch<RemotePrompt>, run: BranchRun): Promise<readonly number[]> {
    const { stopTokens } = this.#parts
    const [first, ...others] = placesOf(tree, stopTokens)
    const rated = [await this.#ask(first!, question, run)]
    rated.push(...(await Promise.all(others.map((place) => this.#ask(place, question, run)))))
    // Place 0 is before the first node; place N + 1 is after node N.
    const paths = [0]
    for (const { token, parent } of tree.nodes) paths.push(paths[parent + 1]! + rated[parent + 1]!.get(token)!)
    const logProbs: number[] = []
    for (const { reply, node, token: last } of tree.ends) {
      const end = logSum((last === null ? stopTokens : [last]).map((token) => rated[node + 1]!.get(token)!))
      // Rounding may add up to slightly more than probability 1.
      logProbs[reply] = Math.min(0, paths[node + 1]! + end)
    }
    return logProbs
  }

  async #ask(
    { written, wanted }: Place,
    question: AdmittedBranch<RemotePrompt>,
    run: BranchRun,
  ): Promise<ReadonlyMap<number, number>> {
    const { wire, continued, note } = this.#parts
    const { prompt } = question
    const asked = chunked(wanted, wire.mostRatedTokens).map(async (ratedTokens) => {
      const rating = new Rating()
      await run.ask({
        completions: [rating],
        isLast: true,
        isMinor: written.length > 0,
        // There may be thousands of places, of which only a few are requested at a time.
        send: (url, call) => wire.complete(url, requestFor(continued(prompt, written), ratedTokens, prompt, run), call),
        add: (one, piece) => {
          if (piece.type === 'tokens' && piece.rated !== undefined) one.logProbs = piece.rated
        },
        note: (said) => {
          if (written.length === 0) note(run, said, prompt)
        },
      })
      if (rating.logProbs === null) throw new ServerFailure('log_probs', 'it sent no token')
      return rating.logProbs
    })
    return new Map((await Promise.all(asked)).flatMap((logProbs) => [...logProbs]))
  }
}

function requestFor(
  tokens: readonly number[],
  ratedTokens: readonly number[],
  { pictures }: RemotePrompt,
  { cacheSalt }: BranchRun,
): CompletionRequest {
  return {
    id: `lookout-${randomUUID()}`,
    tokens,
    pictures,
    n: 1,
    maxTokens: 1,
    // The generated token is not used.
    sampling: GREEDY,
    stopTokens: [],
    stopText: null,
    grammar: null,
    cacheSalt,
    whole: true,
    topLogProbs: null,
    ratedTokens,
  }
}

/** The completion of a request that only asks for log-probabilities. */
class Rating implements RunningCompletion {
  isSatisfied = false
  logProbs: ReadonlyMap<number, number> | null = null

  finish(): void {
    this.isSatisfied = true
  }
}

/** A place where a reply may continue or end. */
interface Place {
  /** The tokens of the reply up to this place. */
  readonly written: readonly number[]
  /** Tokens that may follow, without duplicates. */
  readonly wanted: readonly number[]
}

/** The place before all nodes, and the place after each. */
function placesOf({ nodes, ends }: ReplyTree, stopTokens: readonly number[]): Place[] {
  const written: (readonly number[])[] = [[]]
  const wanted = Array.from({ length: nodes.length + 1 }, () => new Set<number>())
  for (const { token, parent } of nodes) {
    written.push([...written[parent + 1]!, token])
    wanted[parent + 1]!.add(token)
  }
  for (const { node, token: last } of ends) {
    for (const token of last === null ? stopTokens : [last]) wanted[node + 1]!.add(token)
  }
  return written.map((tokens, place) => ({ written: tokens, wanted: [...wanted[place]!] }))
}

/** The texts at the end of a prompt; null for a prompt without parts. */
function endOf(parts: readonly PromptPart[]): readonly PromptText[] | null {
  const last = parts.findLast((part) => part.type !== 'text' || part.text !== '')
  if (last === undefined) return null
  return last.type === 'text' ? [{ text: last.text.slice(-BEFORE_CHARACTERS), trusted: last.trusted }] : []
}

/** The rest of the second list after the tokens of the first; null if it does not begin with them. */
function behind(first: Int32Array, second: Int32Array): Int32Array | null {
  return first.every((token, at) => second[at] === token) ? second.subarray(first.length) : null
}

/** Splits into lists of at most `size` items; at least one list. */
export function chunked<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  if (items.length <= size) return [items]
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) => items.slice(at * size, (at + 1) * size))
}
