/**
 * The process of an embedded database: PGlite over a folder, served on a socket. It lives as long as a client is
 * connected, or the process that started it needs it: the server, the command line and a second server share it, and it
 * may outlive the one that started it.
 *
 * Arguments: the folder, and a folder that caches an empty database. With the first alone, it only checks whether its
 * user can run the database. Sends `ready`, `taken` when another process has the folder, or `failed` with a reason;
 * and, when asked to end, `shared` if it cannot because others use it.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, cpSync, existsSync, lstatSync, mkdirSync, readdirSync } from 'node:fs'
import { access, chmod, constants, rename, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { releaseMemoryWhenIdle } from '../../lib/guarded/memory.ts'
import { makeFolder } from '../../lib/make-folder.ts'
import { FolderLock } from '../folder-lock.ts'
import { syncFolder, syncTree } from '../sync-folder.ts'
import { ownerOf, problemOfSocket, socketPath } from './address.ts'
import { describeFailure } from './failure.ts'
import { openPglite } from './pglite.ts'
import { SharedSession } from './session.ts'

/**
 * When to release memory first: opening takes much more than the database needs later. The first request is not slower.
 */
const FIRST_RELEASE_MS = 500
/** How long the process waits for another client after one has left. */
const LINGER_MS = 1_000

/** How long it takes until connections that were just closed are seen as closed. */
const SETTLE_MS = 50

export type DatabaseProcessMessage =
  | { readonly state: 'ready' | 'taken' | 'shared' }
  | { readonly state: 'failed'; readonly message: string }

async function main(directory: string, cache: string): Promise<void> {
  becomeOwner(directory)
  await makeFolder(directory)
  const lock = FolderLock.exclusive(directory)
  if (lock === null) return leave({ state: 'taken' })
  const data = join(directory, 'pgdata')
  await makeEmptyDatabase(data, cache)
  // A loss of power may leave it empty, and PostgreSQL would not start. The lock above excludes any other process.
  // If it cannot be removed, PostgreSQL says why.
  await rm(join(data, 'postmaster.pid'), { force: true }).catch(() => {})
  const pglite = await openPglite(data)

  const shared = new SharedSession(
    {
      execute: (messages, onRawData) =>
        pglite.runExclusive(() => pglite.execProtocolRawStream(messages, { onRawData })),
      rollback: async () => void (await pglite.exec('rollback')),
    },
    // Its memory may be corrupt now; everything that it has acknowledged is in the folder.
    () => process.exit(1),
  )
  let wanted = true
  let closing = false
  const close = async () => {
    if (closing || wanted || shared.connections.size > 0) return
    closing = true
    server.close()
    await pglite.close()
    lock[Symbol.dispose]()
    process.exit(0)
  }
  // The wait starts again with each client that leaves.
  let linger: NodeJS.Timeout | undefined
  const closeLater = () => {
    clearTimeout(linger)
    linger = setTimeout(() => void close(), LINGER_MS)
  }
  const server = createServer((socket) => shared.add(socket, closeLater))
  const release = () => {
    wanted = false
    void close()
  }
  process.on('disconnect', release)
  // The process that started this one no longer needs it.
  process.on('message', async () => {
    wanted = false
    await delay(SETTLE_MS)
    await close()
    say({ state: 'shared' })
  })
  // It ends with its clients and not with the terminal: they may still have something to write.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

  const path = socketPath(directory)
  await makeFolder(dirname(path))
  const problem = problemOfSocket(directory)
  if (problem !== null) throw new Error(problem)
  await rm(path, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  await chmod(path, 0o600)
  say({ state: 'ready' })
  // The process that started it may have ended by now.
  if (!process.connected) release()
}

/**
 * The server's user could not open files that root makes: root becomes that user, for good. It stays root if that user
 * cannot run the database: the files already belong to root, the user cannot reach them or this program, or a container
 * forbids it.
 */
function becomeOwner(directory: string): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = ownerOf(directory)
  if (uid === 0) return
  const trial = [...process.execArgv, fileURLToPath(import.meta.url), directory]
  if (spawnSync(process.execPath, trial, { uid, gid, stdio: 'ignore' }).status !== 0) return
  process.setgroups!([gid])
  process.setgid!(gid)
  process.setuid!(uid)
}

/** @throws Error when this process's user, who is not root, cannot run the database. */
async function tryAsOwner(directory: string): Promise<void> {
  await import('@electric-sql/pglite')
  for (const folder of [directory, dirname(socketPath(directory))]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    accessSync(folder, constants.W_OK)
    for (const name of ['', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })]) {
      const { uid } = lstatSync(join(folder, name))
      if (uid !== process.getuid!()) throw new Error(`${join(folder, name)} belongs to another user`)
    }
  }
}

/**
 * Creates the database, completely or not at all. Making an empty one takes seconds, copying one a fraction of a
 * second: one is kept in the cache, if that is writable.
 */
async function makeEmptyDatabase(data: string, cache: string): Promise<void> {
  if (existsSync(data)) return
  const template = join(cache, 'empty-database-1')
  const draft = `${data}.new`
  await rm(draft, { recursive: true, force: true })
  const isKept = existsSync(template) || (await keepEmptyDatabase(template))
  // Earlier versions left it open to all. Another user's stays as it is.
  await chmod(template, 0o700).catch(() => {})
  if (!isKept || !(await copyDatabase(template, draft))) await createDatabase(draft)
  // PostgreSQL syncs only its own changes. Without this, a loss of power would leave files without their bytes.
  await syncTree(draft)
  await rename(draft, data)
  await syncFolder(dirname(data))
}

/** @returns false when another user's template cannot be read. */
async function copyDatabase(template: string, draft: string): Promise<boolean> {
  try {
    // `cpSync` ends the process if it cannot open the folder.
    await access(template, constants.R_OK | constants.X_OK)
    // A thousand files, in two thirds of the time that `cp` takes; this process has nothing else to do.
    cpSync(template, draft, { recursive: true, preserveTimestamps: true })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error
    await rm(draft, { recursive: true, force: true })
    return false
  }
}

/** @returns whether there is one now. */
async function keepEmptyDatabase(template: string): Promise<boolean> {
  try {
    await makeFolder(dirname(template), 0o777)
    await access(dirname(template), constants.W_OK)
  } catch {
    return false
  }
  const draft = `${template}.${process.pid}`
  await createDatabase(draft)
  await syncTree(draft)
  // Another process may have been faster.
  await rename(draft, template).catch(() => rm(draft, { recursive: true, force: true }))
  return true
}

/** PGlite makes files that everyone can write: the folder around them is closed first. */
async function createDatabase(directory: string): Promise<void> {
  await makeFolder(directory)
  await (await openPglite(directory, { startParams: undefined })).close()
}

function say(message: DatabaseProcessMessage): void {
  if (process.connected) process.send!(message)
}

function leave(message: DatabaseProcessMessage): void {
  if (process.connected) process.send!(message, () => process.exit(0))
  else process.exit(0)
}

const [directory, cache] = process.argv.slice(2)
if (cache === undefined) await tryAsOwner(directory!)
else {
  releaseMemoryWhenIdle(FIRST_RELEASE_MS)
  await main(directory!, cache).catch((error: unknown) => leave({ state: 'failed', message: describeFailure(error) }))
}
