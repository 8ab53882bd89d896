import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import type { Principal } from '../../accounts/principal.ts'
import type { RequestTrace } from '../../tracing/request-trace.ts'
import type { ByteLease } from './body/byte-budget.ts'
import type { Framing, ResponseStream } from './connection/response-stream.ts'

/** A response that is sent value by value. */
export type ReplyStream = Pick<ResponseStream, 'isClosed' | 'full' | 'send' | 'end'>

/** A call of the API: a client's request, a line of a batch, or a message of a WebSocket. */
export interface ApiCall {
  /** Identifies it in the ledger, the log and traces: 32 hexadecimal digits. */
  readonly id: string
  readonly principal: Principal
  readonly headers: IncomingHttpHeaders
  /** The whole body, or a body that still arrives. */
  readonly body: Buffer | IncomingMessage
  /** The room in memory that the body already holds. */
  readonly lease?: ByteLease | null
  readonly logger: Logger
  /** Null if the call is not traced. */
  readonly trace: RequestTrace | null
  /** Fires when the response is complete, or when the caller leaves before that. */
  readonly closed: AbortSignal
  /** The status of a complete response; null before that, and when the caller has left. */
  readonly status: number | null
  /** Records the model that the call was admitted to. */
  servedBy(model: string): void
  /** Sets a header of the response, unless its headers have been sent. */
  setHeader(name: string, value: string): void
  /** Begins a response that is sent value by value. */
  openStream(framing: Framing, keepAliveMs?: number): ReplyStream
}
