import { isObject } from '../../models/card-values.ts'
import { BLOB, COMMIT, checkHash, isPlainSubpath } from '../cache/safe-names.ts'
import { HubError } from '../hub-error.ts'
import { type Attempts, BusyError, retried } from './attempts.ts'
import { connectionError, type HttpAnswer, type HttpClient } from './http-client.ts'
import { RemoteFile } from './remote-file.ts'
import { statusError } from './status-error.ts'

/** A file of a repository. */
export interface HubFile {
  /** A plain subpath. */
  readonly path: string
  readonly size: number
  /**
   * Its name in the cache: SHA-256 of its bytes in hex, or git's SHA-1 for a small file. Null if the hub was not asked.
   */
  readonly blob: string | null
}

/** Answers of the API are JSON of some hundred kilobytes. */
const MAX_JSON_BYTES = 2 ** 24
const MAX_PAGES = 1000
/** The largest repositories of GGUF models have some thousand. */
const MAX_FILES = 20_000

/** The API of Hugging Face, which mirrors implement as well. */
export interface Hub extends Attempts {
  readonly http: HttpClient
}

/** The commit that a branch, a tag or a pull request (`refs/pr/1`) names. @throws HubError; ConnectionError */
export async function findCommit(hub: Hub, id: string, revision: string): Promise<string> {
  if (COMMIT.test(revision)) return revision
  const address = addressAt(hub, `api/models/${id}/refs`)
  if (revision.startsWith('refs/pr/')) address.search = 'include_prs=1'
  const { body } = await ask(hub, address, id)
  const named = ['branches', 'tags'].flatMap((kind) => list(body, kind))
  const others = ['pullRequests', 'converts'].flatMap((kind) => list(body, kind))
  const ref = named.find(({ name }) => name === revision) ?? [...named, ...others].find(({ ref }) => ref === revision)
  if (ref === undefined) throw new HubError(`${id} has no branch or tag '${revision}'`)
  return checkHash(ref.targetCommit, COMMIT, 'the commit of a branch')
}

/** All files of a commit. @throws HubError; ConnectionError */
export async function listFiles(hub: Hub, id: string, commit: string): Promise<HubFile[]> {
  const first = addressAt(hub, `api/models/${id}/tree/${commit}`)
  first.search = 'recursive=true'
  const files: HubFile[] = []
  let next = first
  for (let page = 0; page < MAX_PAGES; page++) {
    const { body, answer } = await ask(hub, next, id)
    if (!Array.isArray(body)) throw new HubError(`${next.host} sent no list of files for ${id}: check HF_ENDPOINT`)
    for (const entry of body) if (isObject(entry) && entry.type === 'file') files.push(readFile(entry))
    if (files.length > MAX_FILES) throw new HubError(`${id} has more than ${MAX_FILES} files, which no model has`)
    const link = nextPage(answer.header('link'))
    if (link === null) return files
    // A mirror may link to the hub that it copies: only the position in the list is used.
    next = new URL(first)
    next.search = URL.canParse(link, first.href) ? new URL(link, first).search : ''
    if (next.search === '') return files
  }
  throw new HubError(`The list of files of ${id} does not end: check HF_ENDPOINT`)
}

export function remoteFile(hub: Hub, id: string, commit: string, { path, size, blob }: HubFile): RemoteFile {
  const url = addressAt(hub, `${id}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`)
  return new RemoteFile(hub.http, { url, origin: id, name: path, size, isHashed: blob !== null })
}

function addressAt({ http }: Hub, path: string): URL {
  return new URL(path, http.endpoint)
}

function ask({ http, signal, note, tuning }: Hub, url: URL, id: string) {
  // The user waits for the list, and the cache may do instead.
  const attempts = { signal, note, tuning: { ...tuning, retryMs: tuning.retryMs / 4 } }
  return retried(tuning.askAttempts, attempts, async () => {
    const answer = await http.get(url, { signal, headers: { accept: 'application/json' } })
    const text = await readText(answer, signal)
    if (answer.status === 429 || answer.status >= 500) throw new BusyError(answer, url, http)
    if (answer.status !== 200) throw statusError(answer, { what: null, origin: id, asked: url, http })
    try {
      return { body: JSON.parse(text) as unknown, answer }
    } catch (cause) {
      throw new HubError(`${answer.url.host} did not answer in JSON: check HF_ENDPOINT and the proxy`, { cause })
    }
  })
}

async function readText({ body, url }: HttpAnswer, signal: AbortSignal): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of body as AsyncIterable<Buffer>) {
      bytes += piece.length
      if (bytes > MAX_JSON_BYTES) break
      pieces.push(piece)
    }
  } catch (error) {
    signal.throwIfAborted()
    throw connectionError(url.host, error)
  }
  if (bytes > MAX_JSON_BYTES)
    throw new HubError(`${url.host} sent a list of files that is too large: check HF_ENDPOINT`)
  return Buffer.concat(pieces).toString('utf8')
}

function readFile(entry: Readonly<Record<string, unknown>>): HubFile {
  const { path, lfs } = entry
  if (typeof path !== 'string' || !isPlainSubpath(path)) {
    throw new HubError(
      `The hub names a file '${String(path).slice(0, 200)}', which would lie outside of the cache: check HF_ENDPOINT`,
    )
  }
  const large = isObject(lfs) ? lfs : null
  const size = large?.size ?? entry.size
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) {
    throw new HubError(`The hub does not say how large ${path} is: check HF_ENDPOINT`)
  }
  return { path, size, blob: checkHash(large?.oid ?? entry.oid, BLOB, `the hash of ${path}`) }
}

function nextPage(link: string | null): string | null {
  for (const part of (link ?? '').split(/,\s*(?=<)/)) {
    const [, address] = /^\s*<([^>]+)>\s*;.*\brel="?next"?/i.exec(part) ?? []
    if (address !== undefined) return address
  }
  return null
}

function list(body: unknown, name: string): Readonly<Record<string, unknown>>[] {
  const found = isObject(body) ? body[name] : undefined
  return Array.isArray(found) ? found.filter(isObject) : []
}
