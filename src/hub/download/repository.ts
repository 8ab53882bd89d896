import { getOrMake } from '../../lib/get-or-make.ts'
import { CachedRepository } from '../cache/hub-cache.ts'
import { readMetadata } from '../choice/header-check.ts'
import type { Metadata } from '../choice/memory-estimate.ts'
import { HubError } from '../hub-error.ts'
import type { HubSettings } from '../hub-settings.ts'
import { adviceOf, BusyError } from './attempts.ts'
import { ConnectionError } from './http-client.ts'
import { findCommit, type Hub, type HubFile, listFiles, remoteFile } from './hub-client.ts'
import type { RemoteFile } from './remote-file.ts'

/** One commit of a repository, on the hub and in the cache. */
export type Repository = Awaited<ReturnType<typeof openRepository>>

/**
 * Asks the hub, or, when it cannot be reached, the cache.
 * @throws HubError
 */
export async function openRepository(
  { id, revision }: { readonly id: string; readonly revision: string },
  settings: HubSettings,
  hub: Hub,
) {
  const cache = new CachedRepository(settings.cacheRoot, id)
  const found = settings.isOffline ? null : await askHub(hub, id, revision)
  const isReached = found !== null && !(found instanceof ConnectionError)
  const { commit, files } = isReached ? found : await askCache(cache, revision, settings.cacheRoot, found)
  if (!isReached) hub.note(`${reasonOf(found)}; using what the cache has of ${id}`)
  const remotes = new Map<HubFile, RemoteFile>()
  const headers = new Map<HubFile, Promise<Metadata>>()

  const has = (file: HubFile) => cache.has(commit, file)
  const remote = (file: HubFile): RemoteFile => {
    if (!isReached) throw new HubError(`${file.path} of ${id} is not in the cache, and the hub cannot be reached`)
    return getOrMake(remotes, file, () => remoteFile(hub, id, commit, file))
  }
  const readHeader = async (file: HubFile): Promise<Metadata> => {
    const bytes = !isReached || (await has(file)) ? await cache.link(commit, file) : await remote(file).bytes(hub)
    return readMetadata(bytes, file.size, `${file.path} of ${id}`)
  }
  return {
    id,
    commit,
    files,
    cache,
    has,
    remote,
    /** A file's metadata, from the cache or from the hub. @throws HubError for a file that is broken. */
    metadata: (file: HubFile) => getOrMake(headers, file, () => readHeader(file)),
    /** Records the commit of the revision, so that it is found offline. */
    async noteCommit(): Promise<void> {
      if (isReached) await cache.noteCommit(revision, commit)
    },
  }
}

interface Commit {
  readonly commit: string
  readonly files: readonly HubFile[]
}

async function askHub(hub: Hub, id: string, revision: string): Promise<Commit | ConnectionError> {
  try {
    const commit = await findCommit(hub, id, revision)
    return { commit, files: await listFiles(hub, id, commit) }
  } catch (error) {
    if (error instanceof ConnectionError) return error
    throw error
  }
}

/** @param cause why the hub cannot be asked; null if the user is offline on purpose. */
async function askCache(
  cache: CachedRepository,
  revision: string,
  root: string,
  cause: ConnectionError | null,
): Promise<Commit> {
  const commit = await cache.commit(revision)
  const files = commit === null ? [] : await cache.files(commit)
  if (commit !== null && files.length > 0) return { commit, files }
  const advice = cause === null ? 'unset it' : adviceOf(cause)
  const problem = (place: string) =>
    `Cannot fetch ${cache.id}: ${reasonOf(cause)}, and ${place} has no files of it; ${advice}`
  throw new HubError(problem(`the cache ${root}`), { cause, told: problem('the cache') })
}

function reasonOf(cause: ConnectionError | null): string {
  if (cause instanceof BusyError) return cause.message
  return cause === null ? 'HF_HUB_OFFLINE is set' : `the hub cannot be reached (${cause.message})`
}
