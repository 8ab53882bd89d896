/** What `load-client.ts` is told, and what it tells. */

export interface Load {
  readonly url: string
  readonly key: string
  /** Files with the bodies that the clients send in turn. In each request, `FRESH` gives way to a number of its own. */
  readonly bodies: readonly string[]
  readonly clients: number
  /** Starts of clients are spread over this time. */
  readonly rampMs: number
  readonly measureMs: number
}

export interface Observed {
  /** Length of the measurement. */
  readonly ms: number
  readonly responses: number
  /** Events that hold JSON, tokens, and bytes with all headers. */
  readonly events: number
  readonly tokens: number
  readonly bytes: number
  /** From the request to the first byte after the headers, and to the last byte; one for each response. */
  readonly firstMs: readonly number[]
  readonly totalMs: readonly number[]
  /** How long after they were due tokens arrived, of one token in each piece read. */
  readonly lateMs: readonly number[]
}

/** No character of base64, so that only the number makes it so. */
export const FRESH = '@@@@@@@@'
