import type { IncomingHttpHeaders } from 'node:http'
import type { Logger } from 'pino'
import type { Principal } from '../../accounts/principal.ts'
import type { RequestTrace } from '../../tracing/request-trace.ts'
import type { Tracing } from '../../tracing/tracing.ts'
import type { ApiCall } from './api-call.ts'
import { CLIENT_CLOSED_REQUEST, ClientDisconnected } from './connection/abort-signal.ts'
import { logRequest, newTraceId } from './record/request-log.ts'
import type { RequestMeter } from './record/request-metrics.ts'

/** The services that record calls. */
export interface CallRecords {
  readonly logger: Logger
  /** Null when metrics are off. */
  readonly meter: RequestMeter | null
  /** Null when requests are not traced. */
  readonly tracing: Pick<Tracing, 'begin'> | null
}

interface CallFields {
  readonly path: string
  readonly body: Buffer
  /** Null for a key that is not valid. */
  readonly owner: Principal | null
  readonly headers?: IncomingHttpHeaders
  /** The client's own id; null without one. */
  readonly clientId: string | null
  readonly isTraced: boolean
}

/** A call that is not an HTTP request but is recorded like one: a line of a batch, or a message of a WebSocket. */
export abstract class InnerCall implements ApiCall {
  readonly id = newTraceId()
  readonly headers: IncomingHttpHeaders
  body: Buffer
  readonly logger: Logger
  readonly trace: RequestTrace | null
  readonly #closing = new AbortController()
  readonly closed = this.#closing.signal
  status: number | null = null
  owner: Principal | null
  readonly #path: string
  readonly #clientId: string | null
  readonly #meter: RequestMeter | null
  readonly #started = performance.now()
  #model = ''

  constructor({ path, body, owner, headers, clientId, isTraced }: CallFields, { logger, meter, tracing }: CallRecords) {
    meter?.requestStarted()
    this.#path = path
    this.#clientId = clientId
    this.#meter = meter
    this.owner = owner
    this.body = body
    this.logger = logger
    this.headers = { ...headers, 'content-length': `${body.length}` }
    const about = {
      id: this.id,
      clientId,
      method: 'POST',
      route: path,
      path,
      httpVersion: '1.1',
      headers: this.headers,
    }
    this.trace = (isTraced && tracing?.begin({ ...about, organisation: this.principal.organisation })) || null
  }

  get principal(): Principal {
    if (this.owner === null) throw new Error('A call was answered without a key')
    return this.owner
  }

  servedBy(model: string): void {
    this.#model = model
  }

  /** There is no place for headers. */
  setHeader(): void {}

  abstract openStream(): ReturnType<ApiCall['openStream']>

  /** Records how it ended, once. */
  end(): void {
    if (this.closed.aborted) return
    const { id, logger, trace } = this
    const ended = {
      method: 'POST',
      status: this.status ?? CLIENT_CLOSED_REQUEST,
      ms: performance.now() - this.#started,
    }
    const about = { id, trace, clientId: this.#clientId, path: this.#path, organisation: this.owner?.organisation }
    logRequest(logger, { ...ended, ...about })
    this.#meter?.requestEnded({ ...ended, endpoint: this.#path, model: this.#model })
    this.#closing.abort(new ClientDisconnected('The caller has left'))
    trace?.end(this.status ?? 200, this.status !== null)
  }
}
