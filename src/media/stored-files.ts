/** Uploaded files, as media needs them. The room that keeps files implements it. */
export interface StoredFiles {
  /**
   * The bytes of an organisation's file, piece by piece; null when it has no file of that id.
   * @throws ApiError when the store fails.
   */
  resolveFile(id: string, organisation: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>
}
