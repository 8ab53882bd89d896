import { randomUUID } from 'node:crypto'
import { defaultTextMapGetter, ROOT_CONTEXT, SpanKind, type Tracer } from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, RandomIdGenerator, TracerProvider } from '@opentelemetry/sdk-trace'
import {
  ATTR_HTTP_REQUEST_METHOD,
  ATTR_HTTP_ROUTE,
  ATTR_NETWORK_PROTOCOL_VERSION,
  ATTR_SERVICE_NAME,
  ATTR_SERVICE_VERSION,
  ATTR_URL_PATH,
  ATTR_URL_SCHEME,
} from '@opentelemetry/semantic-conventions'
import type { TracingVariables } from '../config/tracing.ts'
import { withTimeout } from '../lib/with-timeout.ts'
import { LOOKOUT } from './attributes.ts'
import { readBatches, readExporter, readResource, readSampler } from './otlp-settings.ts'
import { RequestTrace } from './request-trace.ts'
import { type ExportLogger, WatchedExporter } from './watched-exporter.ts'

/** A request to trace. */
export interface TracedRequest {
  /** 32 hexadecimal digits. It is also the trace's id, unless the request continues a client's trace. */
  readonly id: string
  /** The client's own id, printable ASCII; null without one. */
  readonly clientId: string | null
  readonly method: string
  /** E.g. `/v1/models/:model_id`. */
  readonly route: string
  /** Without its query. */
  readonly path: string
  readonly httpVersion: string
  readonly organisation: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** Maximum characters of an attribute: paths come from clients. */
const MOST_CHARACTERS = 1024

/** Sends the traces of requests to a collector, in batches and in the background. */
export class Tracing {
  readonly #provider: TracerProvider
  readonly #tracer: Tracer
  readonly #ids = new TraceIds()
  readonly #propagator = new W3CTraceContextPropagator()

  /** @returns null, with a warning in the log, if the variables ask for something unsupported. */
  static open(variables: TracingVariables, version: string, logger: ExportLogger): Tracing | null {
    try {
      return new Tracing(variables, version, logger)
    } catch (error) {
      logger.warn(`Requests are not traced: ${(error as Error).message}`)
      return null
    }
  }

  private constructor(variables: TracingVariables, version: string, logger: ExportLogger) {
    const target = readExporter(variables)
    const exporter = new WatchedExporter(new OTLPTraceExporter(target), target.url, logger)
    const about = {
      [ATTR_SERVICE_NAME]: 'lookout',
      [ATTR_SERVICE_VERSION]: version,
      'service.instance.id': randomUUID(),
      ...readResource(variables),
    }
    this.#provider = new TracerProvider({
      resource: defaultResource().merge(resourceFromAttributes(about)),
      sampler: readSampler(variables),
      idGenerator: this.#ids,
      spanLimits: { attributeValueLengthLimit: MOST_CHARACTERS },
      spanProcessors: [new BatchSpanProcessor({ exporter, ...readBatches(variables) })],
    })
    this.#tracer = this.#provider.getTracer('lookout', version)
  }

  /** Begins the trace of a request, or continues the one that its headers name (W3C Trace Context). */
  begin({ id, clientId, method, route, path, httpVersion, organisation, headers }: TracedRequest): RequestTrace {
    const context = this.#propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter)
    this.#ids.next = id
    const span = this.#tracer.startSpan(
      `${method} ${route}`,
      {
        kind: SpanKind.SERVER,
        attributes: {
          [ATTR_HTTP_REQUEST_METHOD]: method,
          [ATTR_HTTP_ROUTE]: route,
          [ATTR_URL_PATH]: path,
          [ATTR_URL_SCHEME]: 'http',
          [ATTR_NETWORK_PROTOCOL_VERSION]: httpVersion,
          [LOOKOUT.requestId]: id,
          ...(clientId === null ? {} : { [LOOKOUT.clientRequestId]: clientId }),
          [LOOKOUT.organisation]: organisation,
        },
      },
      context,
    )
    return new RequestTrace(this.#tracer, span, context)
  }

  /** Sends the remaining spans, within `mostMs`. */
  async close(mostMs: number): Promise<void> {
    await withTimeout(mostMs, this.#provider.shutdown(), undefined).catch(() => {})
  }
}

/** Gives a trace the id of its first request. */
class TraceIds extends RandomIdGenerator {
  /** The id of the next trace. The SDK asks for it while a root span is being started. */
  next = ''

  override generateTraceId(): string {
    return this.next
  }
}
