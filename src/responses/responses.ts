import type { Logger } from 'pino'
import type { Principal } from '../accounts/principal.ts'
import type { Files } from '../files/files.ts'
import type { HeldFile } from '../files/held-files.ts'
import { addStored, lockStored } from '../files/storage-quota.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import type { Database } from '../storage/database.ts'
import { and, asc, eq, gt, inArray, lt, type SQL, sql } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import { isResponseId } from './response-id.ts'

const { files, responses, responseFiles } = tables

/** The most responses of one conversation. */
const MOST_CHAINED = 100
/** The most bytes of earlier text that a request may build on: as many as fit a context of a million tokens. */
const MOST_CHAIN_BYTES = 4 * 2 ** 20
const SWEEP_MS = 600_000
const SWEPT_AT_ONCE = 100

/** A response as it is stored. */
export type StoredResponse = Readonly<
  Pick<typeof responses.$inferSelect, 'id' | 'previousId' | 'depth' | 'chainBytes' | 'input' | 'body'>
>

/** A response to store. */
export interface NewResponse {
  readonly id: string
  /** The earlier responses of its conversation, oldest first; empty for a new one. */
  readonly chain: readonly StoredResponse[]
  readonly held: readonly HeldFile[]
  readonly body: string
  /** The items of its input as JSON, in which held files have these ids, by their hashes. */
  input(ids: ReadonlyMap<string, string>): string
}

export interface ResponsesOptions {
  readonly database: Database
  readonly files: Files
  /** How long responses are kept, in days; 0 stores none. */
  readonly days: number
  readonly logger: Pick<Logger, 'warn'>
}

/**
 * Stored responses: rows in the database, and files for the media that came with their requests. They count towards the
 * storage quota of their organisation, and expire.
 */
export class Responses {
  readonly #options: ResponsesOptions
  #timer: NodeJS.Timeout | null = null
  #sweeping: Promise<void> = Promise.resolve()

  constructor(options: ResponsesOptions) {
    this.#options = options
  }

  /** Whether responses are stored at all. */
  get enabled(): boolean {
    return this.#options.days > 0
  }

  /** Deletes expired responses, now and every `SWEEP_MS`. */
  start(): void {
    this.#sweep()
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS)
    this.#timer.unref()
  }

  /** @throws ApiError 503 when the database is unavailable. */
  async find(organisation: string, id: string): Promise<StoredResponse | null> {
    const [found] = await this.#select(organisation, [id])
    return found ?? null
  }

  /**
   * Finds the responses with these ids that the organisation has, in any order.
   * @throws ApiError 400 naming `param` when there are too many, or their texts are too long.
   */
  async referred(organisation: string, ids: readonly string[], param: string): Promise<StoredResponse[]> {
    if (ids.length > MOST_CHAINED) {
      throw invalidRequest(`The input may refer to items of at most ${MOST_CHAINED} responses`, param)
    }
    if (ids.length === 0) return []
    const [size] = await this.#options.database.use((queries) =>
      queries
        .select({ bytes: sql<string | null>`sum(${responses.bytes})` })
        .from(responses)
        .where(among(organisation, ids)),
    )
    if (Number(size?.bytes ?? 0) > MOST_CHAIN_BYTES) throw invalidRequest(TOO_LONG, param)
    return this.#select(organisation, ids)
  }

  async #select(organisation: string, ids: readonly string[]): Promise<StoredResponse[]> {
    const known = ids.filter(isResponseId)
    if (known.length === 0) return []
    return this.#options.database.use((queries) =>
      queries
        .select(STORED)
        .from(responses)
        .where(and(among(organisation, known), gt(responses.expiresAt, sql`now()`))),
    )
  }

  /**
   * A response and those that it continues, oldest first. If an earlier one was deleted or has expired, it and all
   * before it are missing. Empty when there is no response with this id.
   */
  async chain(organisation: string, id: string): Promise<StoredResponse[]> {
    if (!isResponseId(id)) return []
    const columns = sql.raw('id, previous_id, depth, chain_bytes, input, body')
    const own = sql`organisation_id = ${organisation} and expires_at > now()`
    // The driver would return a bigint as a string.
    return this.#options.database.execute<StoredResponse & Record<string, unknown>>(sql`
      with recursive chain as (
        select ${columns} from responses where ${own} and id = ${id}
        union all
        select earlier.* from chain join lateral (
          select ${columns} from responses where ${own} and id = chain.previous_id
        ) as earlier on true
      )
      select id, previous_id as "previousId", depth, chain_bytes::float8 as "chainBytes", input, body
      from chain order by depth`)
  }

  /**
   * The conversation that a request continues.
   * @throws ApiError 400 when there is no such response, a part of it is missing, or it is too long.
   */
  async continued(organisation: string, id: string): Promise<StoredResponse[]> {
    const chain = await this.chain(organisation, id)
    const last = chain.at(-1)
    if (last === undefined) {
      throw invalidRequest(`Previous response with id '${id.slice(0, 100)}' not found`, PREVIOUS, {
        code: 'previous_response_not_found',
      })
    }
    if (chain[0]!.previousId !== null) {
      throw invalidRequest(
        `An earlier response of the conversation, '${chain[0]!.previousId}', was deleted or has expired`,
        PREVIOUS,
        { code: 'previous_response_not_found' },
      )
    }
    if (last.depth >= MOST_CHAINED || last.chainBytes > MOST_CHAIN_BYTES) {
      throw invalidRequest(
        last.depth >= MOST_CHAINED
          ? `A conversation may have at most ${MOST_CHAINED} responses; begin a new one with its items as the input`
          : TOO_LONG,
        PREVIOUS,
      )
    }
    return chain
  }

  /**
   * Stores a response. When it resolves, the response is durable.
   * @throws ApiError 413 `insufficient_quota`; 503 when the database is unavailable.
   */
  async keep(principal: Principal, { id, chain, held, body, input }: NewResponse): Promise<void> {
    const { organisation } = principal
    const previous = chain.at(-1)
    const expiresAt = sql`now() + ${this.#options.days} * interval '1 day'`
    await this.#options.files.held.attach(principal, held, async (transaction, ids) => {
      const items = input(ids)
      const bytes = Buffer.byteLength(items) + Buffer.byteLength(body)
      await transaction.insert(responses).values({
        organisationId: organisation,
        id,
        previousId: previous?.id ?? null,
        depth: (previous?.depth ?? 0) + 1,
        bytes,
        chainBytes: (previous?.chainBytes ?? 0) + bytes,
        createdAt: sql`now()`,
        expiresAt,
        input: items,
        body,
      })
      if (ids.size > 0) {
        await transaction
          .insert(responseFiles)
          .values([...ids.values()].map((fileId) => ({ organisationId: organisation, responseId: id, fileId })))
      }
      // A conversation that goes on keeps its beginning: no part of it may expire before its newest response.
      if (chain.length > 0) {
        const earlier = chain.map((response) => response.id)
        await transaction
          .update(responses)
          .set({ expiresAt })
          .where(and(among(organisation, earlier), lt(responses.expiresAt, expiresAt)))
      }
      return bytes
    })
  }

  /** Deletes a response. @returns false when the organisation has no response with this id. */
  async delete(organisation: string, id: string): Promise<boolean> {
    if ((await this.find(organisation, id)) === null) return false
    return (await this.#deleteAll(organisation, [id])) > 0
  }

  /** Deletes responses, and files that no other response has. @returns the number of deleted responses. */
  async #deleteAll(organisation: string, ids: readonly string[]): Promise<number> {
    const { database } = this.#options
    const { count, orphans } = await database.transaction(async (transaction) => {
      await lockStored(transaction, organisation)
      const linked = await transaction
        .selectDistinct({ id: responseFiles.fileId })
        .from(responseFiles)
        .where(and(eq(responseFiles.organisationId, organisation), inArray(responseFiles.responseId, [...ids])))
      const deleted = await transaction
        .delete(responses)
        .where(among(organisation, ids))
        .returning({ bytes: responses.bytes })
      const orphans =
        linked.length === 0
          ? []
          : await transaction
              .delete(files)
              .where(
                and(
                  eq(files.organisationId, organisation),
                  inArray(
                    files.id,
                    linked.map((file) => file.id),
                  ),
                  sql`not exists (select 1 from response_files used
                    where used.organisation_id = ${organisation} and used.file_id = ${files.id})`,
                ),
              )
              .returning({ id: files.id, bytes: files.bytes })
      const freed = [...deleted, ...orphans].reduce((sum, { bytes }) => sum + bytes, 0)
      if (freed > 0) await addStored(transaction, organisation, -freed)
      return { count: deleted.length, orphans }
    })
    await this.#options.files.removeBytes(
      organisation,
      orphans.map((file) => file.id),
    )
    return count
  }

  #sweep(): void {
    this.#sweeping = this.#sweeping
      .then(() => this.#deleteExpired())
      .catch((error: unknown) => {
        this.#options.logger.warn({ err: error }, 'Responses that have expired could not be deleted yet')
      })
  }

  async #deleteExpired(): Promise<void> {
    for (;;) {
      const rows = await this.#options.database.use((queries) =>
        queries
          .select({ organisation: responses.organisationId, id: responses.id })
          .from(responses)
          .where(lt(responses.expiresAt, sql`now()`))
          .orderBy(asc(responses.expiresAt))
          .limit(SWEPT_AT_ONCE),
      )
      for (const [organisation, expired] of Map.groupBy(rows, (row) => row.organisation)) {
        await this.#deleteAll(
          organisation,
          expired.map(({ id }) => id),
        )
      }
      if (rows.length < SWEPT_AT_ONCE || this.#timer === null) return
    }
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    await this.#sweeping
  }
}

const TOO_LONG = `The texts of a conversation may take at most ${MOST_CHAIN_BYTES / 2 ** 20} MiB`
const PREVIOUS = 'previous_response_id'
const STORED = {
  id: responses.id,
  previousId: responses.previousId,
  depth: responses.depth,
  chainBytes: responses.chainBytes,
  input: responses.input,
  body: responses.body,
}

function among(organisation: string, ids: readonly string[]): SQL {
  return and(eq(responses.organisationId, organisation), inArray(responses.id, [...ids]))!
}
