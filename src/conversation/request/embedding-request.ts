import type { Names, Path } from '../../lib/errors/param.ts'
import type { PlacedMessage } from './message.ts'

/** A parsed request for embeddings. */
export interface EmbeddingRequest {
  /** Texts, texts with media, or tokens. At least one. */
  readonly inputs: readonly Placed<InputContent | readonly number[]>[]
  /** The number of dimensions that each vector is cut to; null for all. */
  readonly dimensions: number | null
  /** Whether inputs that are too long for the model are cut, if its engine can do that. */
  readonly truncates?: boolean
  /** What the request calls the parameters that errors name. */
  readonly names?: Names
}

/** A parsed request to score documents. */
export interface RerankRequest extends Pick<EmbeddingRequest, 'names'> {
  readonly query: InputContent
  /** At least one. */
  readonly documents: readonly Placed<InputContent>[]
  /** The number of tokens to which text documents are cut, if the engine can do that; null to cut none. */
  readonly documentTokens: number | null
}

/** A text, or texts and pictures that share one vector. */
export type InputContent = string | PartsInput

export interface PartsInput {
  /** A user's turn. */
  readonly placed: PlacedMessage
  /** The purpose of the vector; absent for the model's default instruction. */
  readonly instruction?: string
}

/** An input, with its place in the request for errors. */
export interface Placed<Content> {
  readonly content: Content
  readonly param: Path
}
