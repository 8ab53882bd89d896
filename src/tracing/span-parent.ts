import {
  type Context,
  defaultTextMapSetter,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { ATTR_ERROR_TYPE } from '@opentelemetry/semantic-conventions'
import { ApiError } from '../lib/errors/errors.ts'
import type { TracedStage } from '../lib/traced-stage.ts'

const PROPAGATOR = new W3CTraceContextPropagator()

/** Begins spans below one span. */
export class SpanParent {
  readonly #tracer: Tracer
  readonly #context: Context

  /** @param context contains the span. */
  constructor(tracer: Tracer, context: Context) {
    this.#tracer = tracer
    this.#context = context
  }

  begin(name: string, options: SpanOptions = {}): Span {
    return this.#tracer.startSpan(name, options, this.#context)
  }

  beginStage(name: string, options: SpanOptions): TracedStage {
    const span = this.begin(name, options)
    const headers: Record<string, string> = {}
    PROPAGATOR.inject(trace.setSpan(this.#context, span), headers, defaultTextMapSetter)
    return { headers, end: (error) => endSpan(span, error) }
  }

  /** A parent for spans below one of these spans. */
  below(span: Span): SpanParent {
    return new SpanParent(this.#tracer, trace.setSpan(this.#context, span))
  }
}

/** @param error why it failed; absent if it succeeded. A span that has ended is left unchanged. */
export function endSpan(span: Span, error?: unknown): void {
  // The SDK would log a warning.
  if (!span.isRecording()) return
  if (error !== undefined) recordError(span, error)
  span.end()
}

/** Records the type of an error. Its message may quote the client's input. */
export function recordError(span: Span, error: unknown): void {
  span.setAttribute(ATTR_ERROR_TYPE, typeOf(error))
  if (isFault(error)) span.setStatus({ code: SpanStatusCode.ERROR })
}

function typeOf(error: unknown): string {
  if (error instanceof ApiError) return error.code ?? error.type
  return error instanceof Error ? error.name : '_OTHER'
}

/** Whether the server failed; invalid input and disconnected clients are not faults. */
function isFault(error: unknown): boolean {
  if (error instanceof ApiError) return error.status >= 500
  return !(error instanceof Error && error.name === 'ClientDisconnected')
}
