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

/** A stored blob. Other objects in the same place may be listed too. */
export interface ListedBlob {
  readonly name: string
  /** Whether no server can still be about to write its row. */
  isSettled(): Promise<boolean>
}

/** The folder of marks: one empty blob for each database whose servers have used the store. */
export const MARKS = '.databases'

/** Stores immutable bytes under names. A name is `folder/name`, of letters, digits and `-`; the server makes it. */
export interface BlobStore {
  draft(): Promise<Draft>
  /** @returns null when the blob does not exist. @throws ApiError 503 when the store is unavailable. */
  read(name: string, range: ByteRange | null, signal?: AbortSignal): Promise<Readable | null>
  /** Removes a blob. A blob that does not exist is no error. */
  remove(name: string): Promise<void>
  /** Lists the stored blobs, in parts. */
  list(): AsyncIterable<readonly ListedBlob[]>
  /** The databases whose servers have used the store. */
  marks(): Promise<readonly ListedBlob[]>
  /** Adds a database to them. @param id letters, digits, `_` and `-` */
  mark(id: string): Promise<void>
  close(): Promise<void>
}
