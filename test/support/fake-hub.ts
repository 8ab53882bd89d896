import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { findEntry } from '../../src/catalogue/catalogue.ts'

/** How one answer goes wrong. */
export type Fault =
  /** The connection is cut after this many bytes of the answer. */
  | { readonly kind: 'cut'; readonly after: number }
  /** This many bytes are sent, and then nothing until the client leaves. */
  | { readonly kind: 'stall'; readonly after: number }
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  /** As many bytes as there should be, but others. */
  | { readonly kind: 'wrong' }

interface SeenRequest {
  readonly server: 'api' | 'cdn'
  /** With the query. */
  readonly url: string
  /** Path of the file at the second server. */
  readonly file: string | null
  readonly range: string | null
  readonly ifRange: string | null
  readonly authorization: string | null
}

export interface FakeHub extends AsyncDisposable {
  /** For HF_ENDPOINT. */
  readonly url: string
  readonly cdnUrl: string
  /** The commit of `main`; an earlier one is gone. */
  commit: string
  /** Files of each repository, by their paths. */
  readonly repositories: Map<string, Map<string, Buffer>>
  readonly requests: SeenRequest[]
  /** Requests of the second server for the file. */
  downloadsOf(file: string): SeenRequest[]
  /** Decides on each answer of the second server; undefined for a good one. */
  onDownload: (request: SeenRequest) => Fault | undefined
  /** The same for the first one. */
  onAsk: (request: SeenRequest) => Fault | undefined
  /** All addresses that were signed so far are worth nothing from now on. */
  expireSignatures(): void
  /** Whether the second server takes ranges. */
  takesRanges: boolean
  /** Part of the ETags of the second server. */
  version: string
}

export interface FakeHubOptions {
  /** Files on each page of a list. */
  readonly pageSize?: number
  /** Files from this size on are LFS files, which the second server has. */
  readonly lfsBytes?: number
}

/**
 * Hugging Face's hub, as far as downloads go: one server for its API, which pages its lists of files and redirects
 * downloads to signed addresses, and one on another port that has the bytes.
 */
export async function startFakeHub({ pageSize = 2, lfsBytes = 1000 }: FakeHubOptions = {}): Promise<FakeHub> {
  const repositories: FakeHub['repositories'] = new Map()
  const requests: SeenRequest[] = []
  let signatures = 0
  let expired = 0

  const api = createServer((request, response) => {
    const seen = note('api', request, null)
    const fault = hub.onAsk(seen)
    if (fault !== undefined) return fail(response, fault)
    const url = new URL(request.url!, hub.url)
    const [, id, rest] = /^\/(?:api\/models\/)?([^/]+\/[^/]+)\/(.*)$/.exec(url.pathname) ?? []
    const files = repositories.get(id ?? '')
    if (files === undefined)
      return reply(response, 404, { error: 'Repository not found' }, { 'x-error-code': 'RepoNotFound' })
    if (rest === 'refs') {
      const refs = (name: string, ref: string) => [{ name, ref, targetCommit: hub.commit }]
      const pulls = url.searchParams.get('include_prs') === '1' ? { pullRequests: refs('1', 'refs/pr/1') } : {}
      const [branches, tags] = [refs('main', 'refs/heads/main'), refs('v1/x', 'refs/tags/v1/x')]
      return reply(response, 200, { branches, tags, converts: [], ...pulls })
    }
    if (rest === `tree/${hub.commit}`) return replyTree(response, url, files)
    const path = decodeURIComponent(rest!.slice(`resolve/${hub.commit}/`.length))
    const bytes = files.get(path)
    if (bytes === undefined) return reply(response, 404, {}, { 'x-error-code': 'EntryNotFound' })
    if (bytes.length < lfsBytes) return void sendBytes(request, response, bytes, `"${gitName(bytes)}"`)
    response.writeHead(302, {
      location: `${hub.cdnUrl}/${id}/${rest!.slice(`resolve/${hub.commit}/`.length)}?signature=${++signatures}`,
      'x-repo-commit': hub.commit,
      'x-linked-etag': `"${sha256(bytes)}"`,
      'x-linked-size': String(bytes.length),
    })
    response.end('Found. Redirecting')
  })

  const cdn = createServer((request, response) => {
    const url = new URL(request.url!, hub.cdnUrl)
    const [, id, path] = /^\/([^/]+\/[^/]+)\/(.*)$/.exec(url.pathname)!
    const file = decodeURIComponent(path!)
    const seen = note('cdn', request, file)
    if (Number(url.searchParams.get('signature')) <= expired)
      return reply(response, 403, { error: 'Request has expired' })
    const bytes = repositories.get(id!)?.get(file)
    if (bytes === undefined) return reply(response, 404, {})
    const fault = hub.onDownload(seen)
    if (fault?.kind === 'status') return fail(response, fault)
    sendBytes(request, response, bytes, `"${hub.version}-${sha256(bytes).slice(0, 16)}"`, fault)
  })

  function note(server: 'api' | 'cdn', { headers, url }: IncomingMessage, file: string | null): SeenRequest {
    const header = (name: string) => (headers[name] as string | undefined) ?? null
    const seen = {
      server,
      url: url!,
      file,
      range: header('range'),
      ifRange: header('if-range'),
      authorization: header('authorization'),
    }
    requests.push(seen)
    return seen
  }

  function replyTree(response: ServerResponse, url: URL, files: ReadonlyMap<string, Buffer>): void {
    const from = Number(url.searchParams.get('cursor') ?? 0)
    const entries = [...files].slice(from, from + pageSize).map(([path, bytes]) => ({
      type: 'file',
      path,
      size: bytes.length,
      oid: gitName(bytes),
      ...(bytes.length < lfsBytes ? {} : { lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 134 } }),
    }))
    // Some mirrors name the hub that they copy.
    const next = `<https://huggingface.co${url.pathname}?recursive=true&cursor=${from + pageSize}>; rel="next"`
    const folder = { type: 'directory', path: 'folder', size: 0, oid: '0'.repeat(40) }
    reply(response, 200, [folder, ...entries], from + pageSize < files.size ? { link: next } : {})
  }

  function sendBytes(
    request: IncomingMessage,
    response: ServerResponse,
    bytes: Buffer,
    etag: string,
    fault?: Fault,
  ): void {
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
    const ifRange = request.headers['if-range']
    const isPart = hub.takesRanges && from !== undefined && (ifRange === undefined || ifRange === etag)
    if (isPart && Number(from) >= bytes.length) {
      reply(response, 416, {})
      return
    }
    const end = isPart && to !== '' ? Math.min(bytes.length, Number(to) + 1) : bytes.length
    const good = bytes.subarray(isPart ? Number(from) : 0, end)
    const body = fault?.kind === 'wrong' ? Buffer.from(good.map((byte) => byte ^ 1)) : good
    response.writeHead(isPart ? 206 : 200, {
      etag,
      'content-length': body.length,
      ...(isPart ? { 'content-range': `bytes ${from}-${end - 1}/${bytes.length}` } : {}),
    })
    if (fault?.kind === 'cut') response.write(body.subarray(0, fault.after), () => response.destroy())
    else if (fault?.kind === 'stall') response.write(body.subarray(0, fault.after))
    else response.end(body)
  }

  const hub: FakeHub = {
    url: await listen(api),
    cdnUrl: await listen(cdn),
    commit: 'c0ffee'.padEnd(40, '0'),
    repositories,
    requests,
    downloadsOf: (file) => requests.filter((request) => request.file === file),
    onDownload: () => undefined,
    onAsk: () => undefined,
    expireSignatures: () => {
      expired = signatures
    },
    takesRanges: true,
    version: 'v1',
    async [Symbol.asyncDispose]() {
      for (const server of [api, cdn]) {
        server.close()
        server.closeAllConnections()
      }
    },
  }
  return hub
}

/** Has the hub serve the repository of a model of the catalogue: its files by their names, with other weights in them. */
export async function serveEntry(
  { repositories }: FakeHub,
  name: string,
  { model, projector }: { readonly model: Buffer; readonly projector: Buffer },
): Promise<void> {
  const entry = (await findEntry(name))!
  const files = new Map<string, Buffer>()
  // What follows the tensors is not read: each quantisation is larger than the one before.
  for (const [index, { model: file }] of entry.quantisations.entries()) {
    files.set(file.path, Buffer.concat([model, Buffer.alloc(index * 2 ** 20)]))
  }
  if (entry.projector !== null) files.set(entry.projector.path, projector)
  repositories.set(entry.repository, files)
}

/** Files are listed and asked for many times, and hashed once. */
const sha256s = new WeakMap<Buffer, string>()
const gitNames = new WeakMap<Buffer, string>()

export function sha256(bytes: Buffer): string {
  const hash = sha256s.get(bytes) ?? createHash('sha256').update(bytes).digest('hex')
  sha256s.set(bytes, hash)
  return hash
}

export function gitName(bytes: Buffer): string {
  const name = gitNames.get(bytes) ?? createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
  gitNames.set(bytes, name)
  return name
}

function reply(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

function fail(response: ServerResponse, fault: Fault): void {
  if (fault.kind === 'status') reply(response, fault.status, { error: 'no' }, fault.headers)
  else if (fault.kind !== 'stall') response.destroy()
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
