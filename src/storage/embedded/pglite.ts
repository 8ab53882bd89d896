import type { PGlite, PGliteOptions } from '@electric-sql/pglite'

/**
 * PostgreSQL's defaults are for a machine that does nothing else, and for a hundred sessions; PGlite has one. Shared memory is
 * cleared when it is made, so all of it is resident: 15 MB with 8 MB of buffers and the default numbers.
 */
const SETTINGS = [
  'shared_buffers = 4MB',
  'max_connections = 5',
  'superuser_reserved_connections = 0',
  'autovacuum_worker_slots = 1',
  'max_wal_senders = 0',
  'max_replication_slots = 0',
  'wal_buffers = 512kB',
  'work_mem = 4MB',
  'maintenance_work_mem = 16MB',
  'max_wal_size = 64MB',
  'min_wal_size = 32MB',
]

/** Opens with fsync, which PGlite leaves out by default: what is acknowledged survives a loss of power too. */
export async function openPglite(dataDir: string, options: PGliteOptions = {}): Promise<PGlite> {
  const { PGlite } = await import('@electric-sql/pglite')
  const startParams = PGlite.defaultStartParams.filter((parameter) => parameter !== '-F')
  return PGlite.create({ dataDir, startParams, postgresqlconf: SETTINGS, ...options })
}
