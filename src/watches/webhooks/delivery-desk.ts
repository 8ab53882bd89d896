import type { SecretBox } from '../../lib/secrets/secret-box.ts'
import type { Database } from '../../storage/database.ts'
import { type SQL, sql } from '../../storage/drizzle.ts'

/** A watch whose events this server sends. */
export interface ClaimedWebhook {
  readonly id: string
  readonly organisation: string
}

/** An event to send. */
export interface Delivery {
  readonly seq: number
  /** Attempts that have failed. */
  readonly tries: number
  readonly id: string
  readonly body: string
  readonly url: string
  /** Signs it; null if it cannot be decrypted. */
  readonly secret: string | null
}

/**
 * Reads and writes deliveries to webhooks in a database that other servers may share. A server leases the webhook of a
 * watch while it sends, so events go out one at a time. A delivery stays until its answer is stored: after a crash it
 * is sent again.
 */
export class DeliveryDesk {
  readonly #database: Database
  readonly #owner: string
  readonly #leaseSeconds: number
  readonly #secrets: SecretBox

  /** @param leaseMs longer than an attempt takes. */
  constructor(
    database: Database,
    about: { readonly owner: string; readonly leaseMs: number; readonly secrets: SecretBox },
  ) {
    this.#database = database
    this.#owner = about.owner
    this.#leaseSeconds = about.leaseMs / 1000
    this.#secrets = about.secrets
  }

  /** Encrypts the secrets that were stored in clear, before the server had `LOOKOUT_SECRET`. */
  async sealSecrets(): Promise<void> {
    if (!this.#secrets.isLocked) return
    const open = await this.#database.execute<{ id: string; secret: string }>(sql`
      select watch_id as id, secret from watch_webhooks where starts_with(secret, 'whsec_')`)
    for (const { id, secret } of open) {
      await this.#database.execute(sql`
        update watch_webhooks set secret = ${this.#secrets.seal(secret, id)}
        where watch_id = ${id} and secret = ${secret}`)
    }
  }

  /** Leases the webhook whose event has waited longest. @param busy organisations to leave out. */
  async claim(busy: readonly string[]): Promise<ClaimedWebhook | null> {
    const [row] = await this.#database.execute<{ id: string; organisation: string }>(sql`
      with free as (
        select hook.watch_id, watches.organisation_id ${this.#waiting(busy)} and due.next_at <= now()
        order by due.next_at limit 1 for update of hook skip locked
      )
      update watch_webhooks set lease = ${this.#owner}, leased_until = ${this.#leaseEnd}
      from free where watch_webhooks.watch_id = free.watch_id
      returning free.watch_id as id, free.organisation_id as organisation`)
    return row ?? null
  }

  /** Milliseconds until an event is due that no server sends; null if there is none. */
  async untilNext(busy: readonly string[]): Promise<number | null> {
    const [row] = await this.#database.execute<{ ms: number | null }>(sql`
      select extract(epoch from min(due.next_at) - now())::float8 * 1000 as ms ${this.#waiting(busy)}`)
    return row!.ms
  }

  #waiting(busy: readonly string[]): SQL {
    return sql`
      from watch_deliveries due join watch_webhooks hook on hook.watch_id = due.watch_id
        join watches on watches.id = due.watch_id
      where hook.ended_at is null and (hook.lease is null or hook.leased_until <= now())
        and watches.organisation_id <> all(${sql.param([...busy])}::text[])`
  }

  /**
   * Renews the lease.
   * @param again whether to take an event that has failed before, or one that was never tried.
   * @returns the first event that is due; null when none is, or the lease is lost.
   */
  async next(watch: string, again: boolean): Promise<Delivery | null> {
    const [row] = await this.#database.execute<Delivery & Record<string, unknown>>(sql`
      with held as (
        update watch_webhooks set leased_until = ${this.#leaseEnd}
        where watch_id = ${watch} and lease = ${this.#owner} and ended_at is null returning watch_id, url, secret
      )
      select due.seq::float8 as seq, due.tries, events.id, events.body, held.url, held.secret
      from held join watch_deliveries due using (watch_id) join watch_events events using (watch_id, seq)
      where due.next_at <= now() and (due.tries > 0) = ${again} order by seq limit 1`)
    return row === undefined ? null : { ...row, secret: this.#secrets.open(row.secret!, watch) }
  }

  async delivered(watch: string, { seq }: Delivery): Promise<void> {
    await this.#database.execute(sql`
      with told as (update watch_webhooks set error = null where watch_id = ${watch} and error is not null)
      delete from watch_deliveries where watch_id = ${watch} and seq = ${seq}`)
  }

  /** @param waitMs until the next attempt; null to give the event up. */
  async failed(watch: string, { seq }: Delivery, error: string, waitMs: number | null): Promise<void> {
    const change =
      waitMs === null
        ? sql`delete from watch_deliveries`
        : sql`update watch_deliveries set tries = tries + 1, next_at = now() + make_interval(secs => ${waitMs / 1000})`
    await this.#database.execute(sql`
      with told as (update watch_webhooks set error = ${error} where watch_id = ${watch})
      ${change} where watch_id = ${watch} and seq = ${seq}`)
  }

  /** Ends the webhook, unless the client has set another address meanwhile. */
  async end(watch: string, { url }: Delivery, error: string): Promise<void> {
    await this.#database.execute(sql`
      with ended as (
        update watch_webhooks set ended_at = now(), error = ${error} where watch_id = ${watch} and url = ${url}
        returning watch_id
      )
      delete from watch_deliveries where watch_id in (select watch_id from ended)`)
  }

  async leave(watch: string): Promise<void> {
    await this.#database.execute(sql`
      update watch_webhooks set lease = null, leased_until = null
      where watch_id = ${watch} and lease = ${this.#owner}`)
  }

  /** Frees the leases of servers that have stopped: those whose names begin with the prefix. */
  async forget(prefix: string): Promise<void> {
    await this.#database.execute(
      sql`update watch_webhooks set lease = null, leased_until = null where starts_with(lease, ${prefix})`,
    )
  }

  get #leaseEnd() {
    return sql`now() + make_interval(secs => ${this.#leaseSeconds})`
  }
}
