import type { ByteSource } from '../../models/read/gguf.ts'
import { CachedRepository } from '../cache/hub-cache.ts'
import { readMetadata } from '../choice/header-check.ts'
import type { Metadata } from '../choice/memory-estimate.ts'
import { HubError } from '../hub-error.ts'
import type { HubSettings } from '../hub-settings.ts'
import type { Tuning } from '../tuning.ts'
import type { Attempts } from './attempts.ts'
import { ConnectionError, type HttpClient } from './http-client.ts'
import { HubClient, type HubFile } from './hub-client.ts'
import type { RemoteFile } from './remote-file.ts'

type Options = Attempts & { readonly tuning: Tuning }

/** One commit of a repository: on the hub, and what the cache has of it. */
export class Repository {
  readonly id: string
  readonly commit: string
  readonly files: readonly HubFile[]
  readonly cache: CachedRepository
  /** Null when the hub cannot be asked. */
  readonly #client: HubClient | null
  readonly #options: Options
  readonly #remotes = new Map<HubFile, RemoteFile>()
  readonly #headers = new Map<HubFile, Promise<Metadata>>()

  private constructor(
    cache: CachedRepository,
    commit: string,
    files: readonly HubFile[],
    client: HubClient | null,
    options: Options,
  ) {
    this.id = cache.id
    this.cache = cache
    this.commit = commit
    this.files = files
    this.#client = client
    this.#options = options
  }

  /**
   * Asks the hub, or, when it cannot be reached, the cache.
   * @throws HubError
   */
  static async open(
    { id, revision }: { readonly id: string; readonly revision: string },
    settings: HubSettings,
    http: HttpClient,
    options: Options,
  ): Promise<Repository> {
    const cache = new CachedRepository(settings.cacheRoot, id)
    const client = new HubClient(http, options)
    let reason = 'HF_HUB_OFFLINE is set'
    let cause: ConnectionError | undefined
    if (!settings.isOffline) {
      try {
        const commit = await client.commit(id, revision)
        return new Repository(cache, commit, await client.files(id, commit), client, options)
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error
        reason = `the hub cannot be reached (${error.message})`
        cause = error
      }
    }
    const commit = await cache.commit(revision)
    const files = commit === null ? [] : await cache.files(commit)
    if (commit === null || files.length === 0) {
      const advice = settings.isOffline ? 'unset it' : 'check the network, HTTPS_PROXY and HF_ENDPOINT'
      const problem = (cache: string) => `Cannot fetch ${id}: ${reason}, and ${cache} has no files of it; ${advice}`
      throw new HubError(problem(`the cache ${settings.cacheRoot}`), { cause, told: problem('the cache') })
    }
    options.note(`${reason}; using what the cache has of ${id}`)
    return new Repository(cache, commit, files, null, options)
  }

  async has(file: HubFile): Promise<boolean> {
    return this.cache.has(this.commit, file)
  }

  /** A file's metadata, from the cache or from the hub. @throws HubError for a file that is broken. */
  metadata(file: HubFile): Promise<Metadata> {
    const known = this.#headers.get(file)
    if (known !== undefined) return known
    const header = this.#bytes(file).then((bytes) => readMetadata(bytes, file.size, `${file.path} of ${this.id}`))
    this.#headers.set(file, header)
    return header
  }

  remote(file: HubFile): RemoteFile {
    if (this.#client === null) {
      throw new HubError(`${file.path} of ${this.id} is not in the cache, and the hub cannot be reached`)
    }
    const remote = this.#remotes.get(file) ?? this.#client.file(this.id, this.commit, file)
    this.#remotes.set(file, remote)
    return remote
  }

  /** Notes that the revision is this commit, so that it is found offline. */
  async noteCommit(revision: string): Promise<void> {
    if (this.#client !== null) await this.cache.noteCommit(revision, this.commit)
  }
  async #bytes(file: HubFile): Promise<string | ByteSource> {
    if (this.#client === null || (await this.has(file))) return this.cache.link(this.commit, file)
    return this.remote(file).bytes(this.#options)
  }
}
