import type { RgbImage } from '../media/pixels.ts'

/**
 * The one interface that `conversation/` speaks to a model, local or remote. There is one shape of work: a shared prefix
 * and branches. The prefix is prefilled once; each branch continues it with its own suffix and yields `n` completions.
 * A chat is one branch with an empty suffix; multilook is many branches over one context.
 */
export interface Engine {
  readonly info: ModelInfo
  readonly state: EngineState

  /**
   * Admits the work: tokenises the prompt, checks it against the context window and queues it.
   * Resolves when it is admitted, so errors that must precede a response (prompt too long, overload) reject here.
   *
   * @param signal Aborting frees everything the request holds within one step and ends `events`.
   * @throws ApiError 400 when a branch does not fit the context window (param from `branch.param`) or its constraint is
   * not supported (param from `constraint.param`), 503 `model_overloaded` when the queue is full or the engine is
   * restarting.
   */
  generate(work: Work, signal: AbortSignal): Promise<Generation>

  /**
   * Number of prompt tokens the parts cost; exact for text and media. Text that is far too long for the context is not
   * counted to its end: infinite.
   * @throws ApiError 400 for parts that the model does not take, 503 `model_overloaded` while the engine is restarting.
   */
  countTokens(parts: readonly PromptPart[], options: CountOptions): Promise<number>

  /** For engines that can tell. @throws ApiError 503 while the engine does not run. */
  stats?(): Promise<EngineStats>

  close(): Promise<void>
}

export interface CountOptions {
  /** Owner of the parts: what is computed of them to count them is kept for its work alone. */
  readonly organisation: string
  /** Aborting rejects with its reason at once. */
  readonly signal: AbortSignal
}

/** `unloaded` engines take no memory and start with the next work. */
export type EngineState = 'unloaded' | 'starting' | 'ready' | 'restarting' | 'closed'

/** The state of an engine at one moment, and its counts since its process started. */
export interface EngineStats {
  /** Completions that run. */
  readonly running: number
  /** Requests that wait for their first completion to start. */
  readonly waiting: number
  /** KV cells that there are; and cells and sequences in use. */
  readonly totalCells: number
  readonly usedCells: number
  readonly usedSequences: number
  /** What the prefix cache holds, in memory of its own: cells, and sequences. */
  readonly cachedCells: number
  readonly cachedSequences: number
  /** Prompt tokens that were computed, and that were spared because other work of the organisation had computed them. */
  readonly prefilledTokens: number
  readonly reusedTokens: number
  /** Prompts that were opened with a beginning that was there already, and without one. */
  readonly prefixHits: number
  readonly prefixMisses: number
  /** Tokens that completions have got; end-of-turn tokens are not counted. */
  readonly decodedTokens: number
  /** How often a completion had to give up its cells, to be computed anew later. */
  readonly interruptions: number
  /** Resident memory of the engine's process. */
  readonly residentBytes: number
}

/** What a loaded model says of itself. */
export interface ModelInfo {
  /** Tokens that one sequence may hold, prompt and completion together. */
  readonly contextTokens: number
  readonly vocabularySize: number
  /** No token stands for more bytes of a text; infinite where that is not known, as of a model that was never loaded. */
  readonly longestTokenBytes: number
  /** Jinja source stored with the weights; null when the file carries none. */
  readonly chatTemplate: string | null
  /** Text of the special tokens that templates refer to; empty when the model has none. */
  readonly bosToken: string
  readonly eosToken: string
  readonly modalities: { readonly image: boolean; readonly audio: boolean }
}

export type PromptPart = TextPart | MediaPart

export type MediaPart = ImagePart | FramesPart | AudioPart

export interface TextPart {
  readonly type: 'text'
  readonly text: string
  /**
   * True only for text that the server itself wrote (the chat template): control tokens in it are parsed. A user's
   * text is never trusted, so it cannot inject a control token.
   */
  readonly trusted: boolean
}

/** A still picture that already has the size the model's encoder takes (see `media/resize.ts`). */
export interface ImagePart {
  readonly type: 'image'
  readonly image: RgbImage
}

/**
 * One frame of a video, or two that follow each other and have one size: families that can, merge two into one grid of
 * tokens. When they are shown is for a text before them to say.
 */
export interface FramesPart {
  readonly type: 'frames'
  readonly frames: readonly RgbImage[]
}

/** Sound: mono, 16,000 samples a second, -1 to 1. At least a tenth of a second. */
export interface AudioPart {
  readonly type: 'audio'
  readonly samples: Float32Array
}

export interface Work {
  /** Owner of the request: fair scheduling and cache scope. */
  readonly organisation: string
  readonly prefix: readonly PromptPart[]
  readonly branches: readonly Branch[]
}

export interface Branch {
  /** Input of the request that errors about this branch point at; `messages` unless given. */
  readonly param?: string
  readonly suffix: readonly PromptPart[]
  /** Completions to sample from this branch, at least 1. */
  readonly n: number
  /** Most tokens per completion; null for as many as the context window leaves. 0 yields an empty completion. */
  readonly maxTokens: number | null
  readonly sampling: Sampling
  /** What each completion's text must look like; a completion that is cut at `maxTokens` is the beginning of such. */
  readonly constraint?: Constraint
  /** Given when the prompt ends within a thought: each completion begins with the rest of it. */
  readonly thought?: Thought
}

/**
 * A thought before the reply. It is free text: a constraint begins behind it. Its tokens are part of the text, of
 * `maxTokens` and of the completion's tokens.
 */
export interface Thought {
  /** The mark that ends it, where it first comes. */
  readonly end: string
  /** The mark and what stands around it, e.g. `\n</think>\n\n`. What follows the mark always comes behind a thought. */
  readonly closing: string
  /**
   * Most tokens of the thought; fewer where `maxTokens` would leave no room for `closing` and a token behind it. Behind
   * them the engine writes `closing` itself, as it does when the model ends its turn within the thought; the reply follows.
   */
  readonly budget: number
}

/**
 * Decides which tokens may come next, and when the completion may end. It sees every token from the first on, or from
 * the first behind the thought; control tokens never match it.
 */
export type Constraint = (TagContent | TriggeredTagsConstraint) & {
  /** Input of the request that errors about this constraint point at, and into. */
  readonly param?: string
}

/** What can be a whole text or the content of a tag. */
export type TagContent = JsonSchemaConstraint | RegexConstraint

/** A value that satisfies the schema, as JSON text unless `notation` says otherwise. */
export interface JsonSchemaConstraint {
  readonly type: 'json_schema'
  readonly schema: unknown
  /** Keywords that cannot be kept are refused, unless this says that they are to be left out. */
  readonly lenient?: boolean
  /** How the text differs from JSON. */
  readonly notation?: Notation
}

/** A way to write values that differs from JSON. It keeps no lengths of strings. */
export interface Notation {
  /** No string holds any of these texts: they would end it, or what it stands in. */
  readonly without: readonly string[]
  /**
   * Stands around strings in place of `"`, and nothing between is escaped. Keys stand without it where they can, and
   * nothing but `,` and `:` between the parts of objects and arrays.
   */
  readonly quote?: string
  /**
   * The whole value is an object, written as its members alone: each is `begin`, its name, `between`, its value and `end`.
   * Values that may be strings are their bare text; see `memberTypes`.
   */
  readonly member?: { readonly begin: string; readonly between: string; readonly end: string }
}

/** A text that the pattern matches from end to end. See `regex/parser.ts` for the dialect. */
export interface RegexConstraint {
  readonly type: 'regex'
  readonly pattern: string
}

/** Free text, until it comes to a trigger: from there on it must be one of the tags that begin so. */
export interface TriggeredTagsConstraint {
  readonly type: 'triggered_tags'
  /** Exactly one of them is the beginning of each tag's `begin`. */
  readonly triggers: readonly string[]
  readonly tags: readonly ConstrainedTag[]
  /** The text may not end before a tag was written. */
  readonly atLeastOne?: boolean
  /** The text ends with the first tag. */
  readonly stopAfterFirst?: boolean
}

export interface ConstrainedTag {
  readonly begin: string
  readonly content: TagContent
  readonly end: string
}

export interface Sampling {
  /** 0 is greedy. */
  readonly temperature: number
  /** In (0, 1]; 1 is off. */
  readonly topP: number
  /** 0 is off. */
  readonly topK: number
  readonly frequencyPenalty: number
  readonly presencePenalty: number
}

export interface Generation {
  /** Prompt cost per branch, in branch order. Known at admission. */
  readonly prompts: readonly PromptUsage[]
  /**
   * Events of all completions, interleaved. Iterate once. Ends after the last `finish` (or `error`) of the last
   * completion; rejects with the abort reason when the signal fires and with an ApiError when the engine is lost.
   */
  readonly events: AsyncIterable<EngineEvent>
  /**
   * Tokens of all completions that were computed until now, as far as the engine has told: also those whose events nobody
   * has read, or ever will.
   */
  computedTokens(): number
}

export interface PromptUsage {
  /** All prompt tokens of the branch: prefix and suffix, text and media. */
  readonly promptTokens: number
  /** Part of `promptTokens` that came from images and videos, from audio, and from prefill that was already there at admission. */
  readonly imageTokens: number
  readonly audioTokens: number
  readonly cachedTokens: number
}

export type EngineEvent = TextEvent | FinishEvent | BranchErrorEvent

export interface TextEvent {
  readonly type: 'text'
  readonly branch: number
  readonly completion: number
  /** Whole characters only: bytes of a character that is not complete yet are held back. Never empty. */
  readonly text: string
  /**
   * Tokens whose text this is, at least 1: one that was sampled, those that a constraint forced behind it, those that
   * printed nothing since the event before. The tokens of all events of a completion are no more than the
   * `completionTokens` of its finish, which counts the last silent ones, too.
   */
  readonly tokens: number
}

export interface FinishEvent {
  readonly type: 'finish'
  readonly branch: number
  readonly completion: number
  /** `length` also for a text that went round in circles, where the model's card says that such are ended. */
  readonly reason: 'stop' | 'length'
  /** Tokens generated, the end-of-turn token not counted. */
  readonly completionTokens: number
  /** Whether the engine ended the thought because its budget was used up. */
  readonly thoughtInterrupted?: boolean
}

/** This branch failed; the others go on. */
export interface BranchErrorEvent {
  readonly type: 'error'
  readonly branch: number
  readonly error: Error
}
