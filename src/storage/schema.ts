import {
  bigint,
  boolean,
  date,
  index,
  integer,
  jsonb,
  numeric,
  pgTable,
  primaryKey,
  sql,
  text,
  timestamp,
} from './drizzle.ts'

/**
 * The tables, as queries see them. The statements that create them are in `migrations/`; a test compares the two. Times
 * have a time zone; byte and token counts fit a JavaScript number.
 */
const moment = (name: string) => timestamp(name, { withTimezone: true })

/** Limits of one organisation. The server's limits apply where one is absent. */
export interface OrganisationLimits {
  readonly requestsPerMinute?: Readonly<Record<string, number>>
  /** Credits per calendar month (UTC). */
  readonly monthlyCredits?: number
  readonly storedBytes?: number
}

export const organisations = pgTable('organisations', {
  /** The name that the operator chose: lower-case letters, digits and hyphens. */
  id: text('id').primaryKey(),
  createdAt: moment('created_at').notNull().defaultNow(),
  limits: jsonb('limits').$type<OrganisationLimits>().notNull().default({}),
  /** Total size of its files in bytes, updated with every change so that checking a quota needs no sum. */
  storedBytes: bigint('stored_bytes', { mode: 'number' }).notNull().default(0),
  revokedAt: moment('revoked_at'),
})

export const apiKeys = pgTable('api_keys', {
  id: text('id').primaryKey(),
  organisationId: text('organisation_id').notNull(),
  name: text('name').notNull(),
  /** The first characters of the key, enough to recognise it in a list. */
  prefix: text('prefix').notNull(),
  /** SHA-256 of the key in hexadecimal. A key has 256 random bits, so a slow hash would add nothing. */
  hash: text('hash').notNull().unique(),
  scopes: text('scopes').array().notNull(),
  createdAt: moment('created_at').notNull().defaultNow(),
  expiresAt: moment('expires_at'),
  revokedAt: moment('revoked_at'),
  lastUsedAt: moment('last_used_at'),
})

export const files = pgTable(
  'files',
  {
    organisationId: text('organisation_id').notNull(),
    /** Sorts by creation time when compared byte by byte. */
    id: text('id').notNull(),
    bytes: bigint('bytes', { mode: 'number' }).notNull(),
    createdAt: moment('created_at').notNull(),
    filename: text('filename').notNull(),
    purpose: text('purpose')
      .$type<'vision' | 'user_data' | 'batch' | 'ocr' | 'audio' | 'batch_output' | 'watch'>()
      .notNull(),
    contentType: text('content_type').notNull(),
    /** SHA-256 of a file that responses share, in hexadecimal; null for an upload. */
    hash: text('hash'),
    /** When it is deleted; null for never. */
    expiresAt: moment('expires_at'),
  },
  (table) => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    index('files_by_purpose').on(table.organisationId, table.purpose, table.id),
  ],
)

/** Bytes that an organisation uploaded in each minute, including files deleted since. */
export const uploads = pgTable(
  'uploads',
  {
    organisationId: text('organisation_id').notNull(),
    minute: moment('minute').notNull(),
    bytes: bigint('bytes', { mode: 'number' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.minute] })],
)

/** Stored responses of `/v1/responses`. Media that came with a request are files. */
export const responses = pgTable(
  'responses',
  {
    organisationId: text('organisation_id').notNull(),
    id: text('id').notNull(),
    /** The response that this one continues. That may have been deleted since. */
    previousId: text('previous_id'),
    /** How many responses its conversation has up to this one. */
    depth: integer('depth').notNull(),
    /** Bytes that count towards the quota, without files. */
    bytes: bigint('bytes', { mode: 'number' }).notNull(),
    /** The same for its whole conversation. */
    chainBytes: bigint('chain_bytes', { mode: 'number' }).notNull(),
    createdAt: moment('created_at').notNull(),
    expiresAt: moment('expires_at').notNull(),
    /** The items of the input, and the response, as JSON. As text, because `jsonb` rejects some strings of JSON. */
    input: text('input').notNull(),
    body: text('body').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    index('responses_by_expiry').on(table.expiresAt),
  ],
)

/** Which files responses are made of. */
export const responseFiles = pgTable(
  'response_files',
  {
    organisationId: text('organisation_id').notNull(),
    responseId: text('response_id').notNull(),
    fileId: text('file_id').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.organisationId, table.responseId, table.fileId] }),
    index('response_files_by_file').on(table.organisationId, table.fileId),
  ],
)

/** One row per request that was admitted to a model. */
export const usage = pgTable(
  'usage',
  {
    traceId: text('trace_id').primaryKey(),
    at: moment('at').notNull(),
    organisationId: text('organisation_id').notNull(),
    keyId: text('key_id').notNull(),
    model: text('model').notNull(),
    endpoint: text('endpoint').notNull(),
    status: integer('status').notNull(),
    finish: text('finish').notNull(),
    promptTokens: bigint('prompt_tokens', { mode: 'number' }).notNull(),
    completionTokens: bigint('completion_tokens', { mode: 'number' }).notNull(),
    /** Part of the prompt tokens. */
    cachedTokens: bigint('cached_tokens', { mode: 'number' }).notNull(),
    /** Part of the prompt tokens. */
    audioTokens: bigint('audio_tokens', { mode: 'number' }).notNull(),
    /** Pages of the document that a reply of `/v1/ocr` has read. */
    pages: integer('pages').notNull(),
    latencyMs: integer('latency_ms').notNull(),
    credits: numeric('credits', { precision: 20, scale: 6, mode: 'number' }).notNull(),
  },
  (table) => [index('usage_by_time').on(table.organisationId, table.at)],
)

/** Credits that an organisation spent in each calendar month (UTC), so that checking a budget needs no sum. */
export const spending = pgTable(
  'spending',
  {
    organisationId: text('organisation_id').notNull(),
    /** The first day of the month. */
    month: date('month', { mode: 'string' }).notNull(),
    credits: numeric('credits', { precision: 20, scale: 6, mode: 'number' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.month] })],
)

/** Why a batch was not run. */
export interface BatchProblem {
  readonly code: string
  readonly message: string
  readonly param: string | null
  /** Line of the input file, from 1. */
  readonly line: number | null
}

export const batches = pgTable(
  'batches',
  {
    organisationId: text('organisation_id').notNull(),
    /** Sorts by creation time when compared byte by byte. */
    id: text('id').primaryKey(),
    /** The key that its lines are run with. */
    keyId: text('key_id').notNull(),
    endpoint: text('endpoint').notNull(),
    inputFileId: text('input_file_id').notNull(),
    completionWindow: text('completion_window').notNull(),
    metadata: jsonb('metadata').$type<Readonly<Record<string, string>>>(),
    /** How long its output is kept, in seconds; null for ever. */
    outputSeconds: integer('output_seconds'),
    status: text('status').$type<BatchStatus>().notNull(),
    /** The status that it will have once its output is written; null while it runs. */
    ending: text('ending').$type<BatchEnding>(),
    problems: jsonb('problems').$type<readonly BatchProblem[]>(),
    outputFileId: text('output_file_id'),
    errorFileId: text('error_file_id'),
    total: integer('total').notNull().default(0),
    completed: integer('completed').notNull().default(0),
    failed: integer('failed').notNull().default(0),
    createdAt: moment('created_at').notNull(),
    expiresAt: moment('expires_at').notNull(),
    inProgressAt: moment('in_progress_at'),
    finalizingAt: moment('finalizing_at'),
    completedAt: moment('completed_at'),
    failedAt: moment('failed_at'),
    expiredAt: moment('expired_at'),
    cancellingAt: moment('cancelling_at'),
    cancelledAt: moment('cancelled_at'),
    /** The server that validates it or writes its output, until when. */
    lease: text('lease'),
    leasedUntil: moment('leased_until'),
    /** Whether its lines have been deleted after its end. */
    cleared: boolean('cleared').notNull().default(false),
  },
  (table) => [index('batches_by_organisation').on(table.organisationId, table.id)],
)

export type BatchEnding = 'completed' | 'failed' | 'expired' | 'cancelled'
export type BatchStatus = 'validating' | 'in_progress' | 'finalizing' | 'cancelling' | BatchEnding

/** The lines of batches that have not ended. */
const batchLines = pgTable(
  'batch_lines',
  {
    batchId: text('batch_id').notNull(),
    /** The order in which they are run, from 0. */
    position: integer('position').notNull(),
    customId: text('custom_id').notNull(),
    /** The bytes of the input file that are its request. */
    start: bigint('start', { mode: 'number' }).notNull(),
    length: integer('length').notNull(),
    /** Whether it asks for a stream. */
    streams: boolean('streams').notNull().default(false),
    /** The server that runs it, until when. */
    lease: text('lease'),
    leasedUntil: moment('leased_until'),
    tries: integer('tries').notNull().default(0),
    /** The line of the output; null until it has been run. */
    result: text('result'),
    failed: boolean('failed').notNull().default(false),
  },
  (table) => [primaryKey({ columns: [table.batchId, table.position] })],
)

export const watches = pgTable(
  'watches',
  {
    organisationId: text('organisation_id').notNull(),
    /** Sorts by creation time when compared byte by byte. */
    id: text('id').primaryKey(),
    /** The key that its looks are charged to. */
    keyId: text('key_id').notNull(),
    /** The client's settings, as JSON. As text, because `jsonb` rejects some strings of JSON. */
    settings: text('settings').notNull(),
    /** Version of the settings: each change adds 1. */
    version: integer('version').notNull().default(1),
    paused: boolean('paused').notNull().default(false),
    createdAt: moment('created_at').notNull(),
    /** Number of its last event. */
    seq: bigint('seq', { mode: 'number' }).notNull().default(0),
    /** The state of its events, as JSON; null before the first frame. */
    memory: text('memory'),
    /** When a frame was last seen; null before the first one. */
    seenAt: moment('seen_at'),
    /** The server that runs it, until when. */
    lease: text('lease'),
    leasedUntil: moment('leased_until'),
    /** Until when that server expects further frames. A server that gets frames after that takes the watch over. */
    fedUntil: moment('fed_until'),
    /** When it was deleted. It stays for a while, for clients that follow it. */
    deletedAt: moment('deleted_at'),
  },
  (table) => [index('watches_by_organisation').on(table.organisationId, table.id)],
)

export const watchEvents = pgTable(
  'watch_events',
  {
    watchId: text('watch_id').notNull(),
    /** From 1, without gaps. */
    seq: bigint('seq', { mode: 'number' }).notNull(),
    id: text('id').notNull().unique(),
    /** The event that clients get, as JSON. */
    body: text('body').notNull(),
    /** The frame that it shows. */
    fileId: text('file_id'),
    /** The file of its clip; `pending` while that is recorded. */
    clip: text('clip'),
    expiresAt: moment('expires_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.watchId, table.seq] }), index('watch_events_by_expiry').on(table.expiresAt)],
)

/** Where the events of a watch are sent. */
export const watchWebhooks = pgTable('watch_webhooks', {
  watchId: text('watch_id').primaryKey(),
  url: text('url').notNull(),
  /** Types of the events that are sent. */
  types: text('types').array().notNull(),
  /** Signs deliveries: `whsec_` and base64, in clear or encrypted by a `SecretBox` for the watch. */
  secret: text('secret').notNull(),
  /** When its receiver said that it wants no more events. */
  endedAt: moment('ended_at'),
  /** Why the last attempt failed; null after one that succeeded. */
  error: text('error'),
  /** The server that sends, until when. */
  lease: text('lease'),
  leasedUntil: moment('leased_until'),
})

/** Events that are still to be sent. */
export const watchDeliveries = pgTable(
  'watch_deliveries',
  {
    watchId: text('watch_id').notNull(),
    seq: bigint('seq', { mode: 'number' }).notNull(),
    /** Attempts that have failed. */
    tries: integer('tries').notNull().default(0),
    nextAt: moment('next_at').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.watchId, table.seq] }), index('watch_deliveries_by_time').on(table.nextAt)],
)

/** Random texts that all servers on this database share. */
export const secrets = pgTable('secrets', {
  name: text('name').primaryKey(),
  secret: text('secret').notNull(),
})

export const TABLES = {
  organisations,
  apiKeys,
  files,
  uploads,
  responses,
  responseFiles,
  batches,
  batchLines,
  watches,
  watchEvents,
  watchWebhooks,
  watchDeliveries,
  usage,
  spending,
  secrets,
}

/** The current time by the clock of the database, which all replicas share. */
export const now = sql<Date>`now()`
