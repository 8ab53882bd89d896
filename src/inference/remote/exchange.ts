import type { Constraint } from '../contract/constraint.ts'
import type { EngineEvent, PromptUsage } from '../contract/generation.ts'
import type { PromptPart } from '../contract/parts.ts'
import type { ReplyTree } from '../contract/reply-tree.ts'
import type { Branch, ReadWork } from '../contract/work.ts'
import type { WrittenGrammar } from './constraint-worker.ts'
import type { Call, PieceEvent, UsageEvent, Wire, WireEvent } from './wire/wire.ts'

/** A prompt as a wire takes it, or a part of one. */
export interface ReadPrompt {
  /** All its tokens, with those of the pictures; and these alone. */
  readonly promptTokens: number
  readonly imageTokens: number
}

/** A branch that fits the model. */
export interface AdmittedBranch<Prompt extends ReadPrompt> extends Omit<Branch, 'maxTokens'> {
  readonly index: number
  /** All of it, with the prefix. */
  readonly prompt: Prompt
  readonly maxTokens: number
  /** Null for free text. */
  readonly grammar: WrittenGrammar | null
}

/** Usage that changes with what the server says of it. */
export type LiveUsage = { -readonly [Key in keyof PromptUsage]: PromptUsage[Key] }

/** A completion that is being computed. */
export interface RunningCompletion {
  /** Whether what else the server sends of it is not wanted. */
  readonly isSatisfied: boolean
  finish(reason: 'stop' | 'length'): void
}

/** One request to a server. */
export interface Asked<Completion extends RunningCompletion> {
  /** In the order in which the server numbers them. */
  readonly completions: readonly Completion[]
  /** Whether the server's end of a completion is its end; false for a part of one. */
  readonly isLast: boolean
  /** Whether the trace leaves it out, because there are too many of its kind. */
  readonly isMinor?: boolean
  send(url: string, call: Call): AsyncIterable<WireEvent>
  add(completion: Completion, piece: PieceEvent): void
  /** Receives what the server says of the tokens, before the last completion is finished. */
  note(said: UsageEvent): void
}

/** What a branch needs in order to run. */
export interface BranchRun {
  readonly organisation: string
  readonly cacheSalt: string
  /** Whether its completions are read only at their end. */
  readonly whole: boolean
  readonly usage: LiveUsage
  /** Completions that one server computes at a time. */
  readonly capacity: number
  /** Asks a server; and another one, once, when nothing comes of that. */
  ask<Completion extends RunningCompletion>(asked: Asked<Completion>): Promise<void>
}

/** What a branch needs in order to run its completions. */
export interface CompletionRun extends BranchRun {
  emit(event: EngineEvent): void
  /** Receives what a server calls what its numbers depend on. */
  identified(fingerprint: string): void
}

/** How servers are asked how likely replies are. */
export interface ReplyRater<Prompt extends ReadPrompt> {
  /**
   * The tokens of the replies to each question, at least one of each.
   * @returns null when it takes too long.
   * @throws ApiError 400 for a reply without tokens.
   */
  tokensOf(work: ReadWork): Promise<readonly (readonly Int32Array[])[] | null>
  /** The log-probabilities of a tree's replies, each with the end of the turn behind it, by their numbers. */
  rate(tree: ReplyTree, question: AdmittedBranch<Prompt>, run: BranchRun): Promise<readonly number[]>
}

/** How prompts are put to the servers of a model, and how what they answer is read: as tokens, or as text. */
export interface Exchange<Prompt extends ReadPrompt> {
  readonly wire: Omit<Wire, 'complete'>
  /**
   * @param params name the inputs in errors.
   * @returns null when it takes too long.
   * @throws ApiError 400 for media that the model does not take.
   */
  read(
    prompts: readonly (readonly PromptPart[])[],
    params: readonly string[],
    organisation: string,
  ): Promise<readonly Prompt[] | null>
  /**
   * One prompt after the other, and the tokens that a client could have counted in it: those that joining adds are not
   * among them.
   */
  join(first: Prompt, second: Prompt): { readonly prompt: Prompt; readonly countedTokens: number }
  /** What a prompt begins with: work with the same beginning goes to the same server. */
  beginningOf(prompt: Prompt, organisation: string): string
  /**
   * The constraint that completions are held to; null for free text.
   * @throws ApiError 400 for one that the servers cannot be asked for.
   */
  enforced(constraint: Constraint): Constraint | null
  run(branch: AdmittedBranch<Prompt>, run: CompletionRun): Promise<void>
  /** Absent where servers do not say how likely given tokens are. */
  readonly rater?: ReplyRater<Prompt>
  /** Ends what it has started besides the wire. */
  close?(): Promise<void>
}
