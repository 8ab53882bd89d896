import type { Readable } from 'node:stream'

/** Part of a blob, both ends included. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

/** Bytes on their way into a store. Either kept or discarded; a crash before `keep` leaves nothing after the next sweep. */
export interface Draft {
  /** Resolves when the bytes are taken; the next piece waits for that. @throws ApiError 503 when there is no room. */
  write(bytes: Uint8Array): Promise<void>
  /** Makes the bytes durable under a name, whole or not at all. */
  keep(name: string): Promise<void>
  discard(): Promise<void>
}

/** Says which of some names are known. */
export type KnownNames = (names: readonly string[]) => Promise<ReadonlySet<string>>

/** Named bytes that never change. Names are of the caller's own making: `folder/name`, of letters, digits and `-`. */
export interface BlobStore {
  draft(): Promise<Draft>
  /** @returns null when there is no such blob. @throws ApiError 503 when the store is away. */
  read(name: string, range: ByteRange | null, signal?: AbortSignal): Promise<Readable | null>
  /** Deleting what is not there is no error. */
  remove(name: string): Promise<void>
  /**
   * Removes what nobody knows of: blobs and drafts that a crash has left. What another running server may be writing is
   * left alone.
   * @returns the number of removed blobs.
   */
  sweep(known: KnownNames): Promise<number>
  close(): Promise<void>
}
