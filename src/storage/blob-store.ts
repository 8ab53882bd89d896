import type { Readable } from 'node:stream'

/** A part of a blob in bytes, both ends included. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

/** Bytes that are being stored. A draft must be kept or discarded. The next start removes one that a crash left. */
export interface Draft {
  /** Write one piece at a time: the next one only after this resolves. @throws ApiError 503 when there is no space. */
  write(bytes: Uint8Array): Promise<void>
  /** Makes the bytes durable under a name, all or nothing. */
  keep(name: string): Promise<void>
  discard(): Promise<void>
}

/** Returns those of the names that are known. */
type KnownNames = (names: readonly string[]) => Promise<ReadonlySet<string>>

/** Stores immutable bytes under names. A name is `folder/name`, of letters, digits and `-`; the server makes it. */
export interface BlobStore {
  draft(): Promise<Draft>
  /** @returns null when the blob does not exist. @throws ApiError 503 when the store is unavailable. */
  read(name: string, range: ByteRange | null, signal?: AbortSignal): Promise<Readable | null>
  /** Removes a blob. A blob that does not exist is no error. */
  remove(name: string): Promise<void>
  /**
   * Removes blobs whose names are not known, except those that another server may be writing.
   * @returns the number of removed blobs.
   */
  sweep(known: KnownNames): Promise<number>
  close(): Promise<void>
}
