/** What a server answered in place of a result. The message is for the user. */
export class ServerError extends Error {
  override readonly name = 'ServerError'
  /** 0 where the connection failed. */
  readonly status: number
  /** The field of the request at fault. */
  readonly param: string | null
  readonly code: string | null
  /** Seconds after which the server wants to be asked again; null where that would not help. */
  readonly retryAfter: number | null
  /** Whether there was no answer, or only that of a proxy before a server that is not there. */
  readonly isAway: boolean
  /** The error as the API wrote it; null where it was not the API that answered, or not about the request. */
  readonly answer: RawAnswer | null

  constructor(message: string, fields: Pick<ServerError, 'status'> & Partial<Omit<ServerError, keyof Error>>) {
    super(message)
    this.status = fields.status
    this.param = fields.param ?? null
    this.code = fields.code ?? null
    this.retryAfter = fields.retryAfter ?? null
    this.isAway = fields.isAway ?? false
    this.answer = fields.answer ?? null
  }
}

/** What a server answered, as it wrote it. */
export interface RawAnswer {
  readonly status: number
  readonly requestId: string
  /** JSON. */
  readonly body: string
}
