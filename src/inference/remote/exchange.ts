import type { Constraint } from '../contract/constraint.ts'
import type { EngineEvent, PromptUsage } from '../contract/generation.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { ReplyTree } from '../contract/reply-tree.ts'
import type { Branch, ReadWork } from '../contract/work.ts'
import type { WrittenGrammar } from './constraint-worker.ts'
import type { Call, PieceEvent, UsageEvent, Wire, WireEvent } from './wire/wire.ts'

/** A prompt in the form that a wire takes, or a part of one. */
export interface ReadPrompt {
  /** All its tokens, including those of pictures, and those of pictures alone. */
  readonly promptTokens: number
  readonly imageTokens: number
}

/** A branch that fits the model. */
export interface AdmittedBranch<Prompt extends ReadPrompt> extends Omit<Branch, 'maxTokens'> {
  readonly index: number
  /** The whole prompt, including the prefix. */
  readonly prompt: Prompt
  readonly maxTokens: number
  /** Null for free text. */
  readonly grammar: WrittenGrammar | null
}

/** Usage that is updated with the server's reports. */
export type LiveUsage = { -readonly [Key in keyof PromptUsage]: PromptUsage[Key] }

/** A completion that is being computed. */
export interface RunningCompletion {
  /** Whether further output from the server is ignored. */
  readonly isSatisfied: boolean
  finish(reason: 'stop' | 'length'): void
}

/** One request to a server. */
export interface Asked<Completion extends RunningCompletion> {
  /** In the order of the server's indices. */
  readonly completions: readonly Completion[]
  /** Whether the end that the server reports is the end of the completion; false for a leg of one. */
  readonly isLast: boolean
  /** Whether the trace omits it, because there are too many of its kind. */
  readonly isMinor?: boolean
  send(url: string, call: Call): AsyncIterable<WireEvent>
  add(completion: Completion, piece: PieceEvent): void
  /** Receives the server's token counts, before the last completion is finished. */
  note(said: UsageEvent): void
}

/** The environment of a running branch. */
export interface BranchRun {
  readonly organisation: string
  readonly cacheSalt: string
  /** Whether its completions are read only at their end. */
  readonly whole: boolean
  readonly usage: LiveUsage
  /** Maximum completions that one server computes at a time. */
  readonly capacity: number
  /** Sends a request to a server; if it fails without output, retries once on another server. */
  ask<Completion extends RunningCompletion>(asked: Asked<Completion>): Promise<void>
}

/** The environment of a branch with completions. */
export interface CompletionRun extends BranchRun {
  emit(event: EngineEvent): void
  /** Receives the server's fingerprint. */
  identified(fingerprint: string): void
}

/** Requests the probabilities of replies from servers. */
export interface ReplyRater<Prompt extends ReadPrompt> {
  /**
   * The tokens of the replies to each question, at least one per reply.
   * @returns null if it takes too long.
   * @throws ApiError 400 for a reply without tokens.
   */
  tokensOf(work: ReadWork): Promise<readonly (readonly Int32Array[])[] | null>
  /** The log-probabilities of a tree's replies, each including the end of the turn, by reply index. */
  rate(tree: ReplyTree, question: AdmittedBranch<Prompt>, run: BranchRun): Promise<readonly number[]>
}

/** How prompts are sent to a model's servers and their output is read: as tokens or as text. */
export interface Exchange<Prompt extends ReadPrompt> {
  readonly wire: Omit<Wire, 'complete'>
  /**
   * @param params name the inputs in errors.
   * @returns null if it takes too long.
   * @throws ApiError 400 for media that the model does not accept.
   */
  read(
    prompts: readonly (readonly PromptPart[])[],
    params: readonly string[],
    organisation: string,
  ): Promise<readonly Prompt[] | null>
  /** Concatenates two prompts, and counts the tokens as a client could have: without those that joining adds. */
  join(first: Prompt, second: Prompt): { readonly prompt: Prompt; readonly countedTokens: number }
  /** The beginning of a prompt, as a key: work with the same beginning goes to the same server. */
  beginningOf(prompt: Prompt, organisation: string): string
  /**
   * The constraint to enforce on completions; null for free text.
   * @throws ApiError 400 if the servers cannot enforce it.
   */
  enforced(constraint: Constraint): Constraint | null
  run(branch: AdmittedBranch<Prompt>, run: CompletionRun): Promise<void>
  /** Absent if the servers do not report the probabilities of given tokens. */
  readonly rater?: ReplyRater<Prompt>
  /** Closes its resources other than the wire. */
  close?(): Promise<void>
}
