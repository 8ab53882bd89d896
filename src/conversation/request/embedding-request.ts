import type { Path } from '../../lib/param.ts'

/** A parsed request for embeddings. */
export interface EmbeddingRequest {
  /** Texts, or their tokens. At least one. */
  readonly inputs: readonly Placed<string | readonly number[]>[]
  /** To how many numbers each vector is cut; null for all. */
  readonly dimensions: number | null
  /** Whether longer inputs are cut to what the model takes, where its engine can. */
  readonly truncates?: boolean
}

/** A parsed request to rate documents. */
export interface RerankRequest {
  readonly query: string
  /** At least one. */
  readonly documents: readonly Placed<string>[]
}

/** An input, with its place in the request for errors. */
export interface Placed<Content> {
  readonly content: Content
  readonly param: Path
}
