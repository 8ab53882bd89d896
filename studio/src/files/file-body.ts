/** A file of the organisation, as the server lists it. */
export interface StoredFile {
  readonly id: string
  readonly bytes: number
  /** Unix time in seconds. */
  readonly created_at: number
  readonly filename: string
}

export interface FilePage {
  readonly data: readonly StoredFile[]
  readonly last_id: string
  readonly has_more: boolean
}
