import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { checkDecisions } from '../../conversation/call/capability-checks.ts'
import { ApiError, invalidRequest, serviceUnavailable } from '../../lib/errors/errors.ts'
import type { Cameras } from '../../watches/cameras.ts'
import type { WatchReport } from '../../watches/look-counts.ts'
import { type WatchRunner, watchElsewhere } from '../../watches/watch-runner.ts'
import { askedOf, clipOf, keepMsOf, type WatchSettings } from '../../watches/watch-settings.ts'
import { isWatchId, type MadeWatch, type Watch } from '../../watches/watches.ts'
import type { WebhookReport, WebhookSettings } from '../../watches/webhooks/webhook.ts'
import { principalOf, requireScope } from '../http/access/auth.ts'
import type { ApiCall } from '../http/api-call.ts'
import { callOf } from '../http/client-call.ts'
import { namedModel } from '../http/named-model.ts'
import { toPage } from '../http/page.ts'
import { queryBoolean, queryNumber } from '../http/query.ts'
import { addEndpoint } from '../http/routes.ts'
import { sendContent } from '../http/stored-content.ts'
import type { Serving } from '../surfaces/admission.ts'
import { aboutPicture } from '../surfaces/openai/decision-request.ts'
import { found, foundWatch, keyOf, noSuchWatch } from './found-watch.ts'
import { pushFrame } from './watch-frames.ts'
import { openWatchSocket, type WatchSocketOptions } from './watch-socket.ts'
import { streamEvents } from './watch-stream.ts'
import { watchBody, watchChangeBody } from './wire/watch-request.ts'
import type { CameraListBody, WatchBody, WatchListBody } from './wire/watch-response.ts'

export interface WatchesApiOptions extends Pick<Serving, 'models'>, Omit<WatchSocketOptions, 'watchRunner'> {
  readonly cameras: Cameras
  /** Null if this server runs no watches. */
  readonly watchRunner: WatchRunner | null
}

type Running = WatchesApiOptions & WatchSocketOptions

const MAX_PAGE = 100
const DEFAULT_PAGE = 20
const MAX_EVENTS = 1_000
const DEFAULT_EVENTS = 100
const RETRY_SECONDS = 60

/** `/v1/watches` and the paths below it. The contract has no such paths. */
export function addWatches(app: FastifyInstance, options: WatchesApiOptions): void {
  const { watchRunner } = options
  const served =
    (handle: (request: FastifyRequest, reply: FastifyReply, running: Running) => Promise<unknown>) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      if (watchRunner !== null) return handle(request, reply, { ...options, watchRunner })
      request.raw.resume()
      throw serviceUnavailable('This server runs no watches: LOOKOUT_WATCHES is 0', RETRY_SECONDS)
    }
  const shared = { scope: 'watch', bucket: 'watches' } as const
  const unlimited = { scope: 'watch' } as const
  addEndpoint(app, {
    ...{ ...shared, url: '/v1/cameras' },
    handlers: { GET: served((request, _, running) => cameraList(request, running)) },
  })
  const at = '/v1/watches/:watch_id'
  addEndpoint(app, {
    ...{ ...shared, url: '/v1/watches' },
    handlers: {
      POST: served(async (request, reply, running) => {
        const watch = await create(callOf(request, reply), request, running)
        reply.code(201)
        return watch
      }),
      GET: served((request, _, running) => list(request, running)),
    },
  })
  addEndpoint(app, {
    ...{ ...shared, url: at, bucket: { PATCH: 'watches', DELETE: 'watches' } },
    handlers: {
      GET: served(async (request, _, running) => toBody(await foundWatch(request, running), request, running)),
      PATCH: served((request, reply, running) => change(callOf(request, reply), request, running)),
      DELETE: served((request, _, running) => remove(request, running)),
    },
  })
  for (const [action, paused] of [
    ['pause', true],
    ['resume', false],
  ] as const) {
    const handle = served(async (request, _, running) => {
      request.raw.resume()
      const watch = found(await running.watches.pause(...keyOf(request), paused), request)
      await running.watchRunner.refresh()
      return toBody(watch, request, running)
    })
    addEndpoint(app, { ...shared, url: `${at}/${action}`, handlers: { POST: handle } })
  }
  addEndpoint(app, {
    ...{ ...unlimited, url: `${at}/events` },
    handlers: { GET: served((request, _, running) => events(request, running)) },
  })
  for (const kind of ['frame', 'clip'] as const) {
    const handle = served((request, reply, running) => eventFile(kind, request, reply, running))
    addEndpoint(app, { ...unlimited, url: `${at}/events/:seq/${kind}`, handlers: { GET: handle } })
  }
  addEndpoint(app, {
    ...{ ...unlimited, url: `${at}/stream` },
    handlers: {
      GET: served(async (request, reply, running) => {
        const watch = await foundWatch(request, running)
        return streamEvents(watch, request, callOf(request, reply), running)
      }),
    },
  })
  addEndpoint(app, {
    ...{ ...unlimited, url: `${at}/socket`, keyHeader: 'sec-websocket-protocol' },
    handlers: {
      GET: served(async (request, reply, running) => {
        const watch = await foundWatch(request, running)
        return openWatchSocket(watch, request, reply, running)
      }),
    },
  })
  addEndpoint(app, {
    ...{ ...unlimited, url: `${at}/frame` },
    handlers: { GET: served((request, reply, running) => newestFrame(request, reply, running)) },
  })
  // A separate context without body parsers: frames are bytes.
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    addEndpoint(scope, {
      ...{ ...unlimited, url: `${at}/frames` },
      handlers: { POST: served((request, reply, running) => pushFrame(request, reply, running)) },
    })
  })
}

async function create(call: ApiCall, request: FastifyRequest, running: Running): Promise<WatchBody> {
  const probes = queryBoolean(request.query, 'probe')
  const { value: body } = await running.bodies.read(call, watchBody)
  const { webhook, source: given, ...others } = body
  checkWebhook(webhook, running)
  const { organisation } = call.principal
  if (given.type !== 'push' && given.type !== 'camera') requireScope(call.principal, 'admin')
  const source = given.type === 'push' ? given : await running.cameras.record(organisation, given)
  const settings = { ...others, source }
  checkRecord(settings)
  await checkModel(settings, running)
  const leave =
    probes && source.type !== 'push'
      ? await running.cameras.probe(organisation, source, keepMsOf(settings), call.closed)
      : () => {}
  try {
    const made = await running.watches.create(call.principal, settings, webhook)
    await running.watchRunner.refresh()
    return toMadeBody(made, request, running)
  } finally {
    leave()
  }
}

async function list(request: FastifyRequest, running: Running): Promise<WatchListBody> {
  const { after } = request.query as Record<string, unknown>
  if (after !== undefined && !(typeof after === 'string' && isWatchId(after))) {
    throw invalidRequest("Invalid 'after': expected the id of a watch", 'after')
  }
  const limit = queryNumber(request.query, 'limit', { min: 1, max: MAX_PAGE }) ?? DEFAULT_PAGE
  const page = await running.watches.list(principalOf(request).organisation, { after: after ?? null, limit })
  return toPage(
    page.watches.map((watch) => toBody(watch, request, running)),
    page.hasMore,
    null,
  )
}

async function change(call: ApiCall, request: FastifyRequest, running: Running): Promise<WatchBody> {
  const { value: body } = await running.bodies.read(call, watchChangeBody)
  const { webhook, ...fields } = body
  const changes = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
  checkWebhook(webhook, running)
  const { settings } = await foundWatch(request, running)
  const changed = (known: WatchSettings) => ({ ...known, ...changes }) as WatchSettings
  checkRecord(changed(settings))
  await checkModel(changed(settings), running)
  const made = await running.watches.change(...keyOf(request), changed, webhook)
  if (made === null) throw noSuchWatch(keyOf(request)[1])
  await running.watchRunner.refresh()
  return toMadeBody(made, request, running)
}

async function remove(request: FastifyRequest, running: Running) {
  const [organisation, id] = keyOf(request)
  if (!(await running.watches.delete(organisation, id))) throw noSuchWatch(id)
  await running.watchRunner.refresh()
  return { id, object: 'watch', deleted: true }
}

/** @throws ApiError 400 naming `webhook.url` if webhooks must not be sent there. */
function checkWebhook(webhook: WebhookSettings | null | undefined, { watchRunner }: Running): void {
  if (!webhook) return
  const url = new URL(webhook.url)
  const refusal = watchRunner.refusalOf(url)
  if (refusal === null) return
  const reasons = {
    protocol: 'expected an http or https URL',
    port: `port ${url.port} is not allowed, unless LOOKOUT_WEBHOOK_HOSTS names ${url.host}`,
    private: `the address is not public, and LOOKOUT_WEBHOOK_HOSTS does not name ${url.host}`,
  }
  throw invalidRequest(`Invalid 'webhook.url': ${reasons[refusal]}`, ['webhook', 'url'])
}

/** @throws ApiError 400 naming the field that asks for clips of pushed frames, which are not video. */
function checkRecord(settings: WatchSettings): void {
  if (settings.source.type !== 'push' || clipOf(settings) === null) return
  const field = settings.record.before_seconds ? 'before_seconds' : 'after_seconds'
  throw invalidRequest(`Invalid 'record.${field}': clips need a camera; expected 0 for frames that are pushed`, [
    'record',
    field,
  ])
}

/** @throws ApiError 400 naming `model` if it cannot answer the questions. */
async function checkModel({ model: id, questions }: WatchSettings, { models }: Running): Promise<void> {
  const model = await namedModel(models, id)
  const asked = questions.flatMap((question) => [askedOf(question), question.evidence ?? []].flat())
  try {
    checkDecisions(aboutPicture({ url: 'data:,', region: null }, { model: id, questions: asked }), [], model)
  } catch (error) {
    throw error instanceof ApiError ? error.at('model') : error
  }
}

async function cameraList(request: FastifyRequest, { cameras, watches }: Running): Promise<CameraListBody> {
  const { organisation } = principalOf(request)
  const listed = cameras.list(organisation)
  const isUnused = listed.some(({ isDelivering }) => isDelivering === null)
  const elsewhere = isUnused ? await watches.heldCameras(organisation) : null
  const data = listed.map(({ name, isDelivering, fault, message }): CameraListBody['data'][number] => {
    const delivers = isDelivering ?? elsewhere?.get(name)
    const status = delivers === undefined ? 'unused' : delivers ? 'delivering' : 'offline'
    return { name, object: 'camera', status, reason: fault, message }
  })
  return { object: 'list', data }
}

async function events(request: FastifyRequest, running: Running) {
  const { id } = await foundWatch(request, running)
  const after = queryNumber(request.query, 'after', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0
  const limit = queryNumber(request.query, 'limit', { min: 1, max: MAX_EVENTS }) ?? DEFAULT_EVENTS
  const rows = await running.watches.events(id, { after, limit: limit + 1 })
  const data = rows.slice(0, limit).map(({ body }) => JSON.parse(body) as object)
  return { object: 'list', data, has_more: rows.length > limit }
}

async function eventFile(kind: 'frame' | 'clip', request: FastifyRequest, reply: FastifyReply, running: Running) {
  const { id } = await foundWatch(request, running)
  const seq = Number((request.params as { seq: string }).seq)
  const { principal, closed } = callOf(request, reply)
  const file = Number.isSafeInteger(seq)
    ? await running.watches.fileOf(principal.organisation, id, { seq, kind }, closed)
    : null
  const bytes = file && (await sendContent(request, reply, file))
  if (bytes === null) throw invalidRequest(`The watch keeps no ${kind} of such an event`, 'seq', { status: 404 })
  return bytes
}

async function newestFrame(request: FastifyRequest, reply: FastifyReply, running: Running): Promise<Buffer> {
  const watch = await foundWatch(request, running)
  const newest = await running.watchRunner.newest(watch.id)
  if (newest === null) {
    if (running.watchRunner.isElsewhere(watch))
      throw watchElsewhere('Another server runs this watch and has its frames')
    throw invalidRequest('The watch has no frame yet, or its newest one was too large to keep', null, { status: 404 })
  }
  reply.type(newest.contentType).header('cache-control', 'no-store')
  return Buffer.from(newest.bytes)
}

const NOT_RUNNING = { message: null, counts: null, looked_fps: 0, lag_ms: null } as const
/** The clip setting of watches that were stored before clips existed. */
const NO_CLIP = { before_seconds: 0, after_seconds: 0 }
const NO_SERVER = 'No server runs this watch now; one with a free place (LOOKOUT_WATCHES) takes it over within seconds'
const ELSEWHERE = 'Another server runs it, and counts its frames'

type Report = Omit<WatchReport, 'status' | 'counts'> & Pick<WatchBody, 'status' | 'counts'>

/** The report on a watch that this server does not run. */
function reportOf({ paused, heldBy, isOffline }: Watch): Report {
  if (paused) return { ...NOT_RUNNING, status: 'paused', reason: null }
  if (heldBy === null) return { ...NOT_RUNNING, status: 'waiting', reason: NO_SERVER }
  return { ...NOT_RUNNING, status: isOffline ? 'offline' : 'running', reason: ELSEWHERE }
}

function toBody(watch: Watch, request: FastifyRequest, { watchRunner, cameras }: Running): WatchBody {
  const { id, createdAt, settings, paused, seq, webhook } = watch
  const report: Report = (paused ? null : watchRunner.report(id)) ?? reportOf(watch)
  const principal = principalOf(request)
  const source =
    settings.source.type === 'push'
      ? settings.source
      : cameras.shown(principal.organisation, settings.source, principal)
  const { model, name, fps, decode = 'auto', motion, region = null, questions, record, keep_days, metadata } = settings
  return {
    ...{ id, object: 'watch', created_at: Math.floor(createdAt.getTime() / 1000) },
    ...{
      model,
      name,
      source,
      fps,
      decode,
      motion,
      region,
      questions: questions as unknown as WatchBody['questions'],
    },
    ...{ record: { ...NO_CLIP, ...record }, keep_days, metadata: metadata as WatchBody['metadata'] },
    webhook: webhook && toWebhookBody(webhook),
    ...report,
    last_seq: seq,
  }
}

function toWebhookBody({ url, types, status, pending, lastError }: WebhookReport): NonNullable<WatchBody['webhook']> {
  return { url, types: [...types], status, pending, last_error: lastError }
}

function toMadeBody({ watch, secret }: MadeWatch, request: FastifyRequest, running: Running): WatchBody {
  const body = toBody(watch, request, running)
  return secret === null ? body : { ...body, webhook: body.webhook && { ...body.webhook, secret } }
}
