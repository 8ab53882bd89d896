import type { Principal } from '../accounts/principal.ts'
import { ApiError } from '../lib/errors/errors.ts'
import type { Transaction } from '../storage/database.ts'
import { and, eq, gt, sql } from '../storage/drizzle.ts'
import { organisations, uploads } from '../storage/schema.ts'

const MAX_STORED_BYTES = 100 * 2 ** 30
const MAX_UPLOADED_BYTES = 20e9
const UPLOAD_WINDOW_HOURS = 48
const windowStart = sql.raw(`(now() - interval '${UPLOAD_WINDOW_HOURS} hours')`)

/** @throws ApiError 413 or 429 `insufficient_quota` for bytes that the organisation may not store, or not now. */
export async function checkQuota(
  transaction: Transaction,
  { organisation, limits }: Principal,
  bytes: number,
): Promise<void> {
  checkStored(await lockStored(transaction, organisation), limits, bytes)
  const [window] = await transaction
    .select({
      bytes: sql<string | null>`sum(${uploads.bytes})`,
      seconds: sql<string | null>`extract(epoch from min(${uploads.minute}) - ${windowStart})`,
    })
    .from(uploads)
    .where(and(eq(uploads.organisationId, organisation), gt(uploads.minute, windowStart)))
  if (Number(window?.bytes ?? 0) + bytes > MAX_UPLOADED_BYTES) {
    const retryAfter = Math.max(60, Math.ceil(Number(window?.seconds ?? 0)))
    throw new ApiError(
      `Upload quota exceeded: 20 GB per ${UPLOAD_WINDOW_HOURS} hours. Try again in ${retryAfter} seconds.`,
      { status: 429, type: 'insufficient_quota', retryAfter },
    )
  }
}

/**
 * Locks the organisation's row until the transaction ends, so that concurrent uploads cannot exceed the quota together.
 * @returns the bytes that it has stored.
 */
export async function lockStored(transaction: Transaction, organisation: string): Promise<number> {
  const [known] = await transaction
    .select({ stored: organisations.storedBytes })
    .from(organisations)
    .where(eq(organisations.id, organisation))
    .for('update')
  return known?.stored ?? 0
}

/** @throws ApiError 413 `insufficient_quota`. */
export function checkStored(stored: number, limits: Principal['limits'], bytes: number): void {
  const maxStored = limits.storedBytes ?? MAX_STORED_BYTES
  if (stored + bytes <= maxStored) return
  throw new ApiError(
    `Storage quota exceeded: the organisation may store ${gib(maxStored)} and has stored ${gib(stored)}; delete files or stored responses to make room`,
    { status: 413, type: 'insufficient_quota' },
  )
}

/** @param bytes negative for deleted files. */
export async function addStored(transaction: Transaction, organisation: string, bytes: number): Promise<void> {
  await transaction
    .update(organisations)
    .set({ storedBytes: sql`greatest(0, ${organisations.storedBytes} + ${bytes})` })
    .where(eq(organisations.id, organisation))
}

/** Counts an upload that `checkQuota` has admitted. */
export async function countUpload(transaction: Transaction, organisation: string, bytes: number): Promise<void> {
  await addStored(transaction, organisation, bytes)
  await transaction
    .insert(uploads)
    .values({ organisationId: organisation, minute: sql`date_trunc('minute', now())`, bytes })
    .onConflictDoUpdate({
      target: [uploads.organisationId, uploads.minute],
      set: { bytes: sql`${uploads.bytes} + ${bytes}` },
    })
  await transaction
    .delete(uploads)
    .where(and(eq(uploads.organisationId, organisation), sql`${uploads.minute} < ${windowStart} - interval '1 hour'`))
}

function gib(bytes: number): string {
  return `${Number((bytes / 2 ** 30).toPrecision(3))} GiB`
}
