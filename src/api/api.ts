import type { Socket } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { ApiKeys } from '../accounts/authenticator.ts'
import type { RateLimits } from '../accounts/rate-limits.ts'
import type { ModelPulls } from '../hub/model-pulls.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import type { ServerStatus } from '../metrics/server-status.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { requireApiKey } from './http/access/auth.ts'
import { allowOrigins } from './http/access/cors.ts'
import { limitRates } from './http/access/rate-limits.ts'
import { addSecurityHeaders } from './http/access/security-headers.ts'
import { guardBodies } from './http/body-guard.ts'
import type { GracefulShutdown } from './http/connection/graceful-shutdown.ts'
import { answerHalfClosed } from './http/connection/half-close.ts'
import { type LingeringOptions, lingerBeforeClose } from './http/connection/lingering-close.ts'
import { acceptUpgrades, offersWebSocket } from './http/connection/upgrades.ts'
import { distinguishConventions } from './http/conventions.ts'
import { handleError, notFound } from './http/error-handler.ts'
import type { Examinations } from './http/examinations.ts'
import { addHealth } from './http/health.ts'
import { clientRequestId, idHeaders, logRequests, newTraceId } from './http/record/request-log.ts'
import { measureRequests, type RequestMeter } from './http/record/request-metrics.ts'
import { traceRequests } from './http/record/request-traces.ts'
import { ownUrl } from './http/request-url.ts'
import { addRoot } from './http/root.ts'
import { addServerStatus } from './http/server-status.ts'
import { addDetect } from './native/detect.ts'
import { addExaminations } from './native/examinations.ts'
import { addModelCatalogue, type ModelCatalogueOptions } from './native/model-catalogue.ts'
import { addModelPulls } from './native/model-pulls.ts'
import { addMultilook } from './native/multilook.ts'
import { addWatches, type WatchesApiOptions } from './native/watches.ts'
import { addBatches, type BatchesApiOptions } from './openai/batches.ts'
import { addFiles } from './openai/files.ts'
import { addModels } from './openai/models.ts'
import { addOpenApi } from './openapi.ts'
import { addDocumentPages, type DocumentPagesOptions } from './pages/document-pages.ts'
import { addStudioFetch, type StudioFetchOptions } from './pages/fetch.ts'
import type { PageFiles } from './pages/page-files.ts'
import { addReference } from './pages/reference.ts'
import { addStudio } from './pages/studio.ts'
import { answerAsAnthropic } from './surfaces/anthropic/errors.ts'
import { addMessages } from './surfaces/anthropic/messages.ts'
import { addOcr } from './surfaces/mistral/ocr.ts'
import { addOllama } from './surfaces/ollama/ollama.ts'
import { addChatCompletions } from './surfaces/openai/chat-completions.ts'
import { addCompletions } from './surfaces/openai/completions.ts'
import { addDecisions } from './surfaces/openai/decisions.ts'
import { addEmbeddings } from './surfaces/openai/embeddings.ts'
import { addTranscriptions } from './surfaces/openai/transcriptions.ts'
import { addResponses, type ResponsesApiOptions } from './surfaces/responses/responses.ts'
import { addSystemOne } from './surfaces/typesafe/system-one.ts'

export interface ApiOptions
  extends Omit<ResponsesApiOptions, 'shutdown'>,
    BatchesApiOptions,
    Pick<WatchesApiOptions, 'watches' | 'watchRunner' | 'cameras'>,
    LingeringOptions,
    Pick<StudioFetchOptions & DocumentPagesOptions, 'media'>,
    Pick<ModelCatalogueOptions, 'machine'> {
  readonly pulls: ModelPulls
  readonly status: ServerStatus
  readonly examinations: Examinations
  readonly keys: ApiKeys
  /** Null when the server has no rate limits. */
  readonly rateLimits: RateLimits | null
  readonly logger: Logger
  /** Null when metrics are off. */
  readonly meter: RequestMeter | null
  /** Null when requests are not traced. */
  readonly tracing: Pick<Tracing, 'begin'> | null
  readonly closing: GracefulShutdown
  /** Origins whose pages may call from a browser; `*` allows all, an empty list none. */
  readonly corsOrigins: readonly string[]
  /** Whether to serve Ollama's API, which needs no key. */
  readonly ollama: boolean
  /** The files of the Studio's page; null when it is off or was not built. */
  readonly studio: PageFiles | null
  /** The folder of the built reference; null when it is off or was not built. */
  readonly reference: string | null
  readonly bodyTimeoutMs?: number | undefined
  readonly headersTimeoutMs?: number | undefined
}

/** Time limit for receiving an upload; other bodies have less (`body-guard.ts`). */
const REQUEST_TIMEOUT_MS = 3_600_000
/** Time limit for receiving the headers of a request. */
const HEADERS_TIMEOUT_MS = 20_000
/** How often Node checks for connections past a timeout. Its default, 30 s, would delay every timeout by up to 30 s. */
const CHECK_MS = 1_000

/** Time for a client to read why its request is malformed: closing at once may discard the response. */
const BROKEN_LINGER_MS = 2_000

/** Builds the HTTP server with all its endpoints, and does not start it. */
export function createApi(options: ApiOptions): FastifyInstance {
  const { models, closing, headersTimeoutMs = HEADERS_TIMEOUT_MS } = options
  const { draining, shutdown } = closing
  const app = Fastify({
    genReqId: newTraceId,
    requestIdHeader: false,
    requestTimeout: REQUEST_TIMEOUT_MS,
    http: {
      headersTimeout: headersTimeoutMs,
      connectionsCheckingInterval: Math.min(CHECK_MS, headersTimeoutMs / 4),
      shouldUpgradeCallback: offersWebSocket,
      requireHostHeader: false,
    },
    rewriteUrl: ({ url = '' }) => ownUrl(url),
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 1000, ignoreTrailingSlash: true },
    frameworkErrors: (error, request, reply) => {
      reply.headers(idHeaders(request.id, clientRequestId(request)))
      handleError(error, request, reply)
    },
    clientErrorHandler: answerBrokenRequest,
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
  })
  app.removeContentTypeParser('text/plain')
  // Endpoints read JSON bodies themselves, after admitting them by size (`http/body/body-reader.ts`).
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', (_request, _payload, done) => done(null))
  app.setErrorHandler(handleError)
  app.setNotFoundHandler(notFound)

  lingerBeforeClose(app, options)
  answerHalfClosed(app)
  acceptUpgrades(app)
  logRequests(app, options.logger)
  addSecurityHeaders(app)
  allowOrigins(app, options.corsOrigins)
  answerUnusual(app)
  app.decorateRequest('servedModel', null)
  distinguishConventions(app)
  if (options.meter) measureRequests(app, options.meter)
  requireApiKey(app, options.keys)
  traceRequests(app, options.tracing)
  closing.track(app)
  guardBodies(app, options.bodyTimeoutMs)
  if (options.rateLimits) limitRates(app, options.rateLimits)

  const serving = { ...options, shutdown }
  addChatCompletions(app, serving)
  addResponses(app, { ...serving, draining })
  addMultilook(app, serving)
  addDetect(app, serving)
  addCompletions(app, serving)
  addTranscriptions(app, serving)
  addDecisions(app, serving)
  addEmbeddings(app, serving)
  addOcr(app, serving)
  addSystemOne(app, serving)
  addMessages(app, serving)
  addModels(app, options)
  addModelCatalogue(app, options)
  addModelPulls(app, { ...options, draining })
  addExaminations(app, options)
  addFiles(app, { ...serving, answerAsAnthropic })
  addBatches(app, options)
  addWatches(app, { ...options, draining })
  addRoot(app, {
    hasStudio: options.studio !== null,
    hasReference: options.reference !== null,
    ollama: options.ollama,
  })
  if (options.ollama) addOllama(app, serving)
  if (options.studio) {
    addStudio(app, options.studio)
    addStudioFetch(app, serving)
    addDocumentPages(app, serving)
  }
  if (options.reference !== null) addReference(app, options.reference)
  addHealth(app, models, draining)
  addServerStatus(app, options)
  addOpenApi(app, options)
  return app
}

/**
 * Replaces Fastify's schema compilers, which take 4 MiB. No route has such a schema: the `wire/` folders check requests.
 */
function noSchemas(): never {
  throw new Error('A route has a schema for Fastify, which nothing compiles')
}

/** Responds to requests that Node would answer itself, with an empty body, like to all others. */
function answerUnusual(app: FastifyInstance): void {
  // A server may ignore unknown expectations (RFC 9110, 10.1.1).
  app.server.on('checkExpectation', app.routing)
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    const lacksHost = raw.httpVersion === '1.1' && raw.headers.host === undefined
    done(lacksHost ? invalidRequest("The header 'Host' is missing", null) : undefined)
  })
}

/** Responds on the socket itself to bytes that could not be parsed as a request. */
function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, message] = BROKEN[error.code ?? ''] ?? ['400 Bad Request', 'The request is not valid HTTP']
  const body = JSON.stringify(invalidRequest(message, null).toBody())
  const head = [
    `HTTP/1.1 ${status}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    ...Object.entries(idHeaders(newTraceId())).map(([name, value]) => `${name}: ${value}`),
    'connection: close',
  ]
  // A client that does not close its side would hold the connection forever.
  setTimeout(() => socket.destroy(), BROKEN_LINGER_MS).unref()
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

const BROKEN: Readonly<Record<string, readonly [status: string, message: string]>> = {
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'The request headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'The request did not arrive in time'],
}
