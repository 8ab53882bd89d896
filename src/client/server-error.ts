/** A server's error response. The message is for the user. */
export class ServerError extends Error {
  override readonly name = 'ServerError'
  /** 0 if the connection failed. */
  readonly status: number
  /** The field of the request at fault. */
  readonly param: string | null
  readonly code: string | null
  /** Seconds after which the server asks to be retried; null if that would not help. */
  readonly retryAfter: number | null
  /** Whether there was no response, or only that of a proxy whose server is unreachable. */
  readonly isAway: boolean
  /** The error as the API wrote it; null if the response was not from the API, or not about the request. */
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

/** A server's response, unparsed. */
export interface RawAnswer {
  readonly status: number
  readonly requestId: string
  /** JSON. */
  readonly body: string
}
