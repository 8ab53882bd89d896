import { type Context, type Span, SpanKind, type Tracer, trace } from '@opentelemetry/api'
import {
  ATTR_ERROR_TYPE,
  ATTR_HTTP_RESPONSE_STATUS_CODE,
  ATTR_SERVER_ADDRESS,
} from '@opentelemetry/semantic-conventions'
import type { WorkSize, WorkTrace, WorkTracer } from '../inference/contract/work-trace.ts'
import type { TokenCounts } from '../inference/pool/metered-engine.ts'
import type { MediaTrace } from '../media/media-trace.ts'
import { GEN_AI, LOOKOUT, OPERATIONS } from './attributes.ts'
import { recordError, SpanParent } from './span-parent.ts'
import { WorkSpans } from './work-spans.ts'

/** The trace of one HTTP request: the span of the request itself, and the means to begin spans below it. */
export class RequestTrace {
  readonly works: WorkTracer
  readonly media: MediaTrace
  readonly #span: Span
  #hasFailed = false

  /** @param context the span's parent: a client's span, or none. */
  constructor(tracer: Tracer, span: Span, context: Context) {
    this.#span = span
    const parent = new SpanParent(tracer, trace.setSpan(context, span))
    this.works = { begin: (size: WorkSize): WorkTrace => new WorkSpans(parent, size) }
    this.media = {
      // Neither the path nor the query of a URL, which may contain keys.
      begin: (stage, kind, host) =>
        parent.beginStage(`media.${stage}`, {
          kind: host === undefined ? SpanKind.INTERNAL : SpanKind.CLIENT,
          attributes: { [LOOKOUT.mediaKind]: kind, ...(host === undefined ? {} : { [ATTR_SERVER_ADDRESS]: host }) },
        }),
    }
  }

  /** The id of the trace; that of the client's trace if the request continues one. */
  get traceId(): string {
    return this.#span.spanContext().traceId
  }

  /** The request has been admitted to a model. */
  admitted(endpoint: string, model: string): void {
    this.#span.setAttributes({
      [GEN_AI.operation]: OPERATIONS[endpoint] ?? endpoint,
      [GEN_AI.provider]: 'lookout',
      [GEN_AI.model]: model,
    })
  }

  /** Records the tokens that the models have computed for the request, and the finish reason. */
  used({ promptTokens, cachedTokens, completionTokens }: TokenCounts, finish: string): void {
    this.#span.setAttributes({
      [GEN_AI.inputTokens]: promptTokens,
      [GEN_AI.cachedTokens]: cachedTokens,
      [GEN_AI.outputTokens]: completionTokens,
      [GEN_AI.finishReasons]: [finish],
    })
  }

  /** The response is this error, or ends with it. */
  failed(error: unknown): void {
    this.#hasFailed = true
    recordError(this.#span, error)
  }

  /** @param isComplete false if the client disconnected before the end of the response. */
  end(status: number, isComplete: boolean): void {
    this.#span.setAttribute(ATTR_HTTP_RESPONSE_STATUS_CODE, status)
    if (!isComplete && !this.#hasFailed) this.#span.setAttribute(ATTR_ERROR_TYPE, 'ClientDisconnected')
    this.#span.end()
  }
}
