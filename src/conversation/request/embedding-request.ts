import type { Names, Path } from '../../lib/errors/param.ts'
import type { PlacedMessage } from './message.ts'

/** A parsed request for embeddings. */
export interface EmbeddingRequest {
  /** Texts or more, or tokens. At least one. */
  readonly inputs: readonly Placed<InputContent | readonly number[]>[]
  /** To how many numbers each vector is cut; null for all. */
  readonly dimensions: number | null
  /** Whether longer inputs are cut to what the model takes, where its engine can. */
  readonly truncates?: boolean
  /** What the request calls the parameters that errors name. */
  readonly names?: Names
}

/** A parsed request to rate documents. */
export interface RerankRequest extends Pick<EmbeddingRequest, 'names'> {
  readonly query: InputContent
  /** At least one. */
  readonly documents: readonly Placed<InputContent>[]
  /** After how many tokens documents are cut that are texts, by an engine that can; null to cut none. */
  readonly documentTokens: number | null
}

/** A text; or texts and pictures that have one vector. */
export type InputContent = string | PartsInput

export interface PartsInput {
  /** A user's turn. */
  readonly placed: PlacedMessage
  /** What the vector is for; absent for what the model is usually told. */
  readonly instruction?: string
}

/** An input, with its place in the request for errors. */
export interface Placed<Content> {
  readonly content: Content
  readonly param: Path
}
