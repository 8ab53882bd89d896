import type { RgbImage } from '../media/pixels.ts'
import type { TemplateTraits } from '../templates/traits.ts'
import type { OffloadReport } from './offload.ts'
import type { WorkTrace } from './work-trace.ts'

export type { AudioLimits, ImageLimits } from '../models/card.ts'

/**
 * The interface between `conversation/` and a model, local or remote. All work has one shape: a shared prefix and
 * branches. The engine prefills the prefix once. Each branch continues it with its own suffix and yields `n`
 * completions. A chat is one branch with an empty suffix; multilook is many branches over one prefix.
 *
 * Several works may run at the same time; the engine schedules them.
 */
export interface Engine {
  readonly info: ModelInfo
  readonly state: EngineState
  /** What runs where on this machine; absent where a model runs on others, or before it has been loaded. */
  readonly offload?: OffloadReport | null
  /** What its numbers depend on; absent where others compute them, or before it has been loaded. */
  readonly numerics?: Numerics | null

  /**
   * Admits the work: tokenises the prompt, checks it against the context window and queues it. The promise resolves at
   * admission, so the errors that must precede a response (prompt too long, overload) reject it.
   *
   * @param signal aborting it frees everything that the work holds within one step; `events` then rejects with the
   * abort reason.
   * @throws ApiError 400 when a branch does not fit the context window (param from `branch.param`) or its constraint is
   * not supported (param from `constraint.param`), and 503 `model_overloaded` when the queue is full or the engine is
   * restarting.
   */
  generate(work: Work, signal: AbortSignal): Promise<Generation>

  /**
   * Counts the prompt tokens of the parts, exactly for text and media; an engine whose servers alone can count them
   * estimates. The count is infinite for text that is far too
   * long for the context: it is not read to its end.
   * @throws ApiError 400 for parts that the model does not accept, 503 `model_overloaded` while the engine is
   * restarting.
   */
  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number>

  /**
   * Admits the work and says what its prompts take, without queueing it. Whatever `generate` would report of its prompts
   * and reject it for, this does too, except for what depends on other work. Pictures are not looked at.
   * @throws ApiError as `generate` does.
   */
  measure(work: Work, signal: AbortSignal): Promise<Measurement>

  /**
   * Reads how likely the model is to give certain replies to questions about one prefix. The numbers of a question depend on
   * the prefix and on the question alone: not on other questions, their order, caches or other work, except for the
   * roundings of servers that compute batches of several requests. Absent where an engine cannot read.
   *
   * The promise resolves at admission, as that of `generate` does.
   * @throws ApiError as `generate` does; also 400 for what this model cannot read.
   */
  read?(work: ReadWork, signal: AbortSignal): Promise<Reading>

  /**
   * The engine's current state and counters; absent where an engine has none. @throws ApiError 503 while it is down.
   */
  stats?(): Promise<EngineStats>

  /**
   * Keeps the engine for a request, which may give it several works: where its model is removed meanwhile, the engine is
   * closed after that. Absent where models are never removed.
   * @returns the function that ends this.
   */
  hold?(): () => void

  /** Frees everything that the engine holds. Work in progress fails; new work is rejected with 503. */
  close(): Promise<void>
}

export interface CountOptions {
  /** Owner of the parts. What is cached while counting them is used for this organisation's work only. */
  readonly organisation: string
  /** Aborting rejects the count at once, with the abort reason. */
  readonly signal: AbortSignal
}

/** An `unloaded` engine takes no memory. The next work loads it. */
export type EngineState = 'unloaded' | 'starting' | 'ready' | 'restarting' | 'closed'

/** The state of an engine at one moment, and its counters since its process started. */
export interface EngineStats {
  /** Running completions. */
  readonly running: number
  /** Works whose first completion has not started. */
  readonly waiting: number
  /** KV cells in total, then the cells and sequences in use by running work. */
  readonly totalCells: number
  readonly usedCells: number
  readonly usedSequences: number
  /** Cells and sequences that the prefix cache holds, in memory of its own. */
  readonly cachedCells: number
  readonly cachedSequences: number
  /** KV cells and sequences that ended work holds until they are needed; they are not in use. */
  readonly retainedCells: number
  readonly retainedSequences: number
  /** Bytes and pieces of sequences that the prefix cache has on disk, and prompts that were continued from there. */
  readonly diskBytes: number
  readonly diskSequences: number
  readonly diskHits: number
  /** Prompt tokens that were computed, and those reused because other work of the organisation had computed them. */
  readonly prefilledTokens: number
  readonly reusedTokens: number
  /** Prompts whose beginning was already in a cache, and prompts whose beginning was not. */
  readonly prefixHits: number
  readonly prefixMisses: number
  /** Tokens generated for completions, without end-of-turn tokens. */
  readonly decodedTokens: number
  /** Tokens that were expected to come next and computed beside the next token, and how many of them were generated. */
  readonly draftedTokens: number
  readonly acceptedTokens: number
  /** How often a completion gave up its cells, to be computed again later. */
  readonly preemptions: number
  /** Resident memory of the engine's process, in bytes. */
  readonly residentBytes: number
}

/** The properties of a loaded model. */
export interface ModelInfo {
  /** Tokens in one sequence at most, prompt and completion together. */
  readonly contextTokens: number
  readonly vocabularySize: number
  /**
   * Bytes of text in one token at most. Infinite where that is unknown, for example before the model is first loaded.
   */
  readonly longestTokenBytes: number
  /** Jinja source of the chat template; null when the model has none. */
  readonly chatTemplate: string | null
  /**
   * How the template is called, for one of somebody else: it runs in a process of its own. Absent for a template of this
   * program.
   */
  readonly templateTraits?: TemplateTraits | undefined
  /** Texts of the special tokens that templates refer to; empty when the model has none. */
  readonly bosToken: string
  readonly eosToken: string
  readonly modalities: { readonly image: boolean; readonly audio: boolean }
}

/** What the numbers of a loaded model depend on, beside the request. */
export interface Numerics {
  /** `fp_` and 12 hexadecimal digits: a hash of `parts`. */
  readonly fingerprint: string
  /** In words for people. Equal parts mean equal numbers where `isInvariant`. */
  readonly parts: NumericParts
  /**
   * Whether a request is promised the same bits alone and beside others, with and without caches, and however its prompt is
   * cut.
   */
  readonly isInvariant: boolean
}

export interface NumericParts {
  /** Hash of the size of the model's files, of their headers, and of samples of their weights. */
  readonly weights: string
  /** The same of the encoder's file, and the library that runs it; absent of a model without one. */
  readonly encoder?: string
  /** Hash of the chat template. */
  readonly template: string
  /** Versions of Lookout and of llama.cpp. */
  readonly release: string
  /** The kernels for the processor, and what of it they use. */
  readonly kernels: string
  /** Absent where the processor computes everything. */
  readonly devices?: string
  /** Those of the card's settings that change numbers. */
  readonly settings: string
}

export type PromptPart = TextPart | MediaPart

export type MediaPart = ImagePart | FramesPart | AudioPart

export interface TextPart {
  readonly type: 'text'
  readonly text: string
  /**
   * True only for text that the server itself wrote (the chat template). Control tokens are parsed in trusted text
   * only, so a user's text cannot inject one.
   */
  readonly trusted: boolean
}

/** An image that already has the size that the model's encoder accepts (see `media/resize.ts`). */
export interface ImagePart {
  readonly type: 'image'
  readonly image: RgbImage
}

/**
 * One frame of a video, or two consecutive frames of the same size, which some model families merge into one grid of
 * tokens. Timestamps are no part of it: the prompt gives them as text before the frames.
 */
export interface FramesPart {
  readonly type: 'frames'
  readonly frames: readonly RgbImage[]
}

/** Mono audio of 16,000 samples per second, each from -1 to 1, at least 0.1 s long. */
export interface AudioPart {
  readonly type: 'audio'
  readonly samples: Float32Array
}

export interface Work {
  /** Owner of the work. Scheduling is fair between organisations, and caches are never shared across them. */
  readonly organisation: string
  readonly prefix: readonly PromptPart[]
  readonly branches: readonly Branch[]
  /** True when nobody reads a completion before its end: an engine may then report its tokens in larger pieces. */
  readonly whole?: boolean
  /** True for work that nobody waits for: it gives way to all other work, and takes what that leaves. */
  readonly isBackground?: boolean
  /** Absent where the request is not traced. */
  readonly trace?: WorkTrace
}

export interface Branch {
  /** Request parameter that errors about this branch name; `messages` by default. */
  readonly param?: string
  readonly suffix: readonly PromptPart[]
  /** Number of completions to sample from this branch, at least 1. */
  readonly n: number
  /** Maximum tokens per completion; null for as many as the context window leaves. 0 yields an empty completion. */
  readonly maxTokens: number | null
  readonly sampling: Sampling
  /** The form of each completion's text. A completion that is cut at `maxTokens` is the beginning of a valid text. */
  readonly constraint?: Constraint
  /** Present when the prompt ends within a thought: each completion begins with the rest of that thought. */
  readonly thought?: Thought
  /**
   * How many of the likeliest tokens are reported beside each token of the completions, with their log-probabilities; 0
   * for the chosen token alone. Absent where nobody asks for them.
   */
  readonly topLogProbs?: number
}

/**
 * A thought before the reply. It is free text: a constraint applies after it. Its text is part of the completion's
 * text, and its tokens count towards `maxTokens` and the completion's tokens.
 */
export interface Thought {
  /** The marker whose first occurrence ends the thought. */
  readonly end: string
  /** The marker with the text around it, e.g. `\n</think>\n\n`. The text after the marker follows every thought. */
  readonly closing: string
  /**
   * Maximum tokens of the thought; fewer where `maxTokens` would leave no room for `closing` and one token after it.
   * When the budget is used up, or the model ends its turn within the thought, the engine writes `closing` itself and
   * the reply follows.
   */
  readonly budget: number
}

/**
 * The form that a completion's text must have. It decides which tokens may come next and when the completion may end.
 * It applies from the first token, or from the first token after the thought. Control tokens never match it.
 */
export type Constraint = (TagContent | TriggeredTagsConstraint) & {
  /** Request parameter that errors about this constraint name; a position within it may follow. */
  readonly param?: string
  /**
   * Whether whoever reads the text copes with other forms as well. An engine that cannot hold its model to the constraint
   * gives free text then, in place of an error.
   */
  readonly advisory?: boolean
}

/** A constraint on a whole text or on the content of a tag. */
export type TagContent = JsonSchemaConstraint | RegexConstraint | SequenceConstraint | TagListConstraint

/** A value that satisfies the schema, written as JSON unless `notation` says otherwise. */
export interface JsonSchemaConstraint {
  readonly type: 'json_schema'
  readonly schema: unknown
  /** Whether keywords that are not supported are ignored; by default they are an error. */
  readonly lenient?: boolean
  /** How the text is written, where that differs from JSON. */
  readonly notation?: Notation
}

/** A way to write values that differs from JSON. String lengths are not enforced in it. */
export interface Notation {
  /** Texts that no string may contain, because they would end the string or what surrounds it. */
  readonly without: readonly string[]
  /**
   * Delimits strings in place of `"`; nothing in them is escaped. Keys are written without it where possible, and only
   * `,` and `:` separate the parts of objects and arrays, without blanks.
   */
  readonly quote?: string
  /**
   * Given when the whole value is an object that is written as a list of members. Each member is `begin`, its name,
   * `between`, its value and `end`. A value that may be a string is its bare text; see `memberTypes`. `betweenJson`
   * stands in place of `between` before a value that is no string, where the notation tells them apart.
   */
  readonly member?: {
    readonly begin: string
    readonly between: string
    readonly betweenJson?: string
    readonly end: string
  }
  /**
   * Given when the whole value is an object that is written as keyword arguments of Python, such as `x=1, y="text"`. Words
   * and strings in it are Python's.
   */
  readonly keywords?: true
}

/** A text that the pattern matches from start to end. See `constraints/regex/parser.ts` for the dialect. */
export interface RegexConstraint {
  readonly type: 'regex'
  readonly pattern: string
}

/** Texts, and values that follow constraints, one after the other. */
export interface SequenceConstraint {
  readonly type: 'sequence'
  readonly parts: readonly (string | TagContent)[]
}

/** One tag or, unless `single`, several with `between` between them. */
export interface TagListConstraint {
  readonly type: 'tag_list'
  readonly tags: readonly ConstrainedTag[]
  readonly between: string
  readonly single?: boolean
}

/** Free text in which every occurrence of a trigger begins one of the tags. */
export interface TriggeredTagsConstraint {
  readonly type: 'triggered_tags'
  /** Each tag's `begin` starts with exactly one of these. */
  readonly triggers: readonly string[]
  readonly tags: readonly ConstrainedTag[]
  /** The text may not end before it contains a tag. */
  readonly atLeastOne?: boolean
  /** The text ends with the first tag. */
  readonly stopAfterFirst?: boolean
  /** In place of free text: the whole text is either this, or tags with nothing but white space between them. */
  readonly otherwise?: TagContent
}

export interface ConstrainedTag {
  readonly begin: string
  readonly content: TagContent
  readonly end: string
}

export interface Sampling {
  /** 0 is greedy decoding. */
  readonly temperature: number
  /** In (0, 1]; 1 is off. */
  readonly topP: number
  /** 0 is off. */
  readonly topK: number
  readonly frequencyPenalty: number
  readonly presencePenalty: number
  /**
   * An integer from 0 to 2^32 - 1: the same work with the same seed is sampled with the same random numbers. Absent: others
   * each time. Servers of other engines take it as far as they can.
   */
  readonly seed?: number
}

export interface Generation {
  /**
   * Prompt tokens of each branch, in branch order. They are known at admission, except where only a server can count them:
   * there they are estimates until the branch's last `finish`.
   */
  readonly prompts: readonly PromptUsage[]
  /**
   * Events of all completions, interleaved. Iterate once. The iteration ends after the last `finish` (or `error`) of
   * the last completion. It rejects with the abort reason when the signal fires, and with an ApiError 503 when the
   * engine fails. Leaving the iteration early aborts the work.
   */
  readonly events: AsyncIterable<EngineEvent>
  /**
   * Completion tokens that the engine has reported so far. They include tokens whose events have not been read, or
   * never will be.
   */
  computedTokens(): number
  /**
   * Says that its reader has ended a completion, after so many tokens. It counts with these from then on, whatever more the
   * engine has computed of it: that depends on how busy the machine is.
   */
  settle(completion: CompletionId, tokens: number): void
  /** What the servers that compute it call what their numbers depend on; null before they say so, or where they differ. */
  fingerprint?(): string | null
}

/** Which completion of a work, as events name it. */
export type CompletionId = Pick<TextEvent, 'branch' | 'completion'>

/** The prompts of a work, in branch order. Of a work with one branch, it is not known what a cache has. */
export interface Measurement {
  readonly prompts: readonly PromptUsage[]
  /** False for estimates: only a server can count the tokens, and says them with a reply. */
  readonly exact: boolean
}

export interface PromptUsage {
  /** All prompt tokens of the branch: prefix and suffix, text and media. */
  readonly promptTokens: number
  /** The part of `promptTokens` from images and videos, and from audio: by its length, without what encoders pad it with. */
  readonly imageTokens: number
  readonly audioTokens: number
  /** The part of `promptTokens` that was already computed at admission. */
  readonly cachedTokens: number
}

export type EngineEvent = TextEvent | FinishEvent | BranchErrorEvent

export interface TextEvent {
  readonly type: 'text'
  readonly branch: number
  readonly completion: number
  /** Whole characters, never empty: the bytes of an incomplete character are held back. */
  readonly text: string
  /**
   * The tokens behind this text, at least 1: a sampled one, those that a constraint forced after it, and those since
   * the previous event that printed nothing. Their sum over a completion is at most the `completionTokens` of its
   * finish, which also counts trailing tokens that print nothing.
   */
  readonly tokens: number
  /**
   * Where in the text that of each token ends, in order and in units of UTF-16. Absent of a single token, and where several
   * cannot be told apart: all of the text is of all of them then.
   */
  readonly ends?: readonly number[]
  /**
   * Of the tokens behind this text, in order; present where the branch asks for `topLogProbs`. Their bytes are those of
   * the texts, except for half of a character at the end of a completion, whose tokens may have none.
   */
  readonly logProbs?: readonly TokenLogProb[]
}

/** A token that was chosen, and what else was likely. */
export interface TokenLogProb extends RankedToken {
  /** The likeliest tokens, in descending order; the chosen one is among them where it is likely enough. */
  readonly top: readonly RankedToken[]
}

export interface RankedToken {
  /** Its text, with U+FFFD in place of bytes that are no whole character; of a token that prints nothing, its name. */
  readonly text: string
  /** What it prints. */
  readonly bytes: readonly number[]
  /**
   * Natural logarithm of its probability among the tokens that could follow: after the mask of a constraint, before
   * temperature and penalties. 0 for a forced token.
   */
  readonly logProb: number
}

export interface FinishEvent {
  readonly type: 'finish'
  readonly branch: number
  readonly completion: number
  /** `length` also for a completion that kept repeating itself, where the model's card limits repetition. */
  readonly reason: 'stop' | 'length'
  /** Tokens generated, without the end-of-turn token. */
  readonly completionTokens: number
  /** True when the engine ended the thought because its budget was used up. */
  readonly thoughtInterrupted?: boolean
}

/** The branch failed; the others continue. */
export interface BranchErrorEvent {
  readonly type: 'error'
  readonly branch: number
  readonly error: Error
}

/** Questions about a shared prefix, and the replies to each whose probability is asked for. */
export interface ReadWork extends Pick<Work, 'organisation' | 'prefix' | 'isBackground' | 'trace'> {
  /** At least one. */
  readonly questions: readonly ReadQuestion[]
}

export interface ReadQuestion {
  /** Request parameter that errors about this question name; `messages` by default. */
  readonly param?: string
  readonly suffix: readonly PromptPart[]
  /** From 1 to 1,000 different whole replies. None is empty. */
  readonly replies: readonly string[]
}

export interface Reading {
  /** Prompt tokens of each question, in request order. The tokens of the replies are not among them. */
  readonly prompts: readonly PromptUsage[]
  /**
   * One for each question, as they become known. Iterate once. It rejects as `Generation.events` does. Leaving the
   * iteration early aborts the work.
   */
  readonly answers: AsyncIterable<ReadAnswer>
}

export type ReadAnswer =
  | {
      readonly question: number
      /**
       * Natural logarithm of the probability of each reply, in request order: of its tokens and of the end of the turn
       * after them. Minus infinity for what the model cannot write.
       */
      readonly logProbs: readonly number[]
    }
  /** The question failed; the others continue. */
  | { readonly question: number; readonly error: Error }
