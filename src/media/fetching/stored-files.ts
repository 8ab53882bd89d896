/** Access to uploaded files. `files/` implements it. */
export interface StoredFiles {
  /**
   * Reads a file of the organisation, piece by piece; null when it has no file with this id.
   * @throws ApiError when the store fails.
   */
  resolveFile(id: string, organisation: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>
}
