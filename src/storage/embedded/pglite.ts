import type { PGlite, PGliteOptions } from '@electric-sql/pglite'

/** PostgreSQL's defaults are for a machine that does nothing else. */
const SETTINGS = [
  'shared_buffers = 8MB',
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
