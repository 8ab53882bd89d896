import { fdatasyncSync, fsyncSync } from 'node:fs'
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
  // Other sync methods do not reach the file system below.
  'wal_sync_method = fsync',
]

/** Emscripten's record of an open file or folder of the machine. */
interface OpenFile {
  readonly nfd: number
  readonly node: { readonly isFolder: boolean }
}

/**
 * Opens PGlite with fsync, which it leaves out by default, as does Emscripten's file system: acknowledged data survives
 * a loss of power too.
 */
export async function openPglite(dataDir: string, options: PGliteOptions = {}): Promise<PGlite> {
  const { PGlite } = await import('@electric-sql/pglite')
  const { NodeFS } = await import('@electric-sql/pglite/nodefs')
  class SyncedFS extends NodeFS {
    override async init(pglite: PGlite, given: Parameters<InstanceType<typeof NodeFS>['init']>[1]) {
      const { emscriptenOpts } = await super.init(pglite, given)
      const addSync = ({ NODEFS }: Parameters<NonNullable<typeof emscriptenOpts.preRun>[number]>[0]) => {
        NODEFS.stream_ops.fsync = ({ nfd, node }: OpenFile) => {
          // A segment of the log has its full size from the start: a commit changes no metadata.
          const sync = node.isFolder ? fsyncSync : fdatasyncSync
          // Throws an error number, from which PostgreSQL decides: it accepts folders that cannot be synced.
          NODEFS.tryFSOperation(() => sync(nfd))
          return 0
        }
      }
      return { emscriptenOpts: { ...emscriptenOpts, preRun: [...(emscriptenOpts.preRun ?? []), addSync] } }
    }
  }
  const startParams = PGlite.defaultStartParams.filter((parameter) => parameter !== '-F')
  return PGlite.create({ fs: new SyncedFS(dataDir), startParams, postgresqlconf: SETTINGS, ...options })
}
