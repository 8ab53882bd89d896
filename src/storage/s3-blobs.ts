import { open, rm } from 'node:fs/promises'
import { PassThrough, type Readable } from 'node:stream'
import type { S3ServiceException } from '@aws-sdk/client-s3'
import { serviceUnavailable } from '../lib/errors/errors.ts'
import { type BlobStore, type ListedBlob, MARKS } from './blob-store.ts'
import { openDrafts } from './draft-folder.ts'
import { StorageFullError } from './storage-full.ts'

/** A younger object may belong to another server on the same bucket that has not written its row yet. */
const YOUNG_MS = 3_600_000
const LISTED_AT_ONCE = 1_000
const RETRY_AFTER_S = 5
const CONNECT_TIMEOUT_MS = 3_000
/** How long a transfer may stall. */
const SILENCE_MS = 60_000
const ATTEMPTS = 3
/** The status of S3-compatible stores that are full. */
const INSUFFICIENT_STORAGE = 507
/** Retrying does not help against these. 408 and 429 mean that the store is slow or busy. */
const REFUSALS = [400, 401, 403, 404]

/**
 * Stores blobs as objects in a bucket of any S3-compatible store. An upload is written to a file first: S3 needs its
 * length, and a rejected upload must not leave the machine.
 * @param url `s3://bucket/prefix?endpoint=https://...&region=...`; the endpoint is Amazon's by default. `young` and
 * `silence`, in seconds, replace `YOUNG_MS` and `SILENCE_MS`. Credentials come from the usual AWS sources
 * (`AWS_ACCESS_KEY_ID`, profiles, roles), and so does a region that is not named.
 * @param folder for uploads on their way.
 */
export async function openS3Blobs(url: URL, folder: string): Promise<BlobStore> {
  const sdk = await import('@aws-sdk/client-s3')
  const endpoint = url.searchParams.get('endpoint')
  const { AWS_REGION, AWS_DEFAULT_REGION } = process.env
  // The SDK reads AWS_REGION and the profile; AWS's other tools know both variables.
  const region =
    url.searchParams.get('region') ||
    AWS_REGION ||
    AWS_DEFAULT_REGION ||
    // Another mode would look up the region itself, and its failure would end the process.
    (await new sdk.S3Client({ defaultsMode: 'legacy' }).config.region().catch(() => 'us-east-1'))
  const msOf = (name: string, usual: number) => {
    const seconds = url.searchParams.get(name)
    return seconds === null ? usual : Number(seconds) * 1000
  }
  const silenceMs = msOf('silence', SILENCE_MS)
  const clientWith = (limits: object) =>
    new sdk.S3Client({
      region,
      ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
      maxAttempts: ATTEMPTS,
      // Everything that it would log is also thrown as an error.
      logger: { trace() {}, debug() {}, info() {}, warn() {}, error() {} },
      requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS, ...limits },
      // Not every S3-compatible store supports the newer checksums.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    })
  // `requestTimeout` would count the time that a large upload takes.
  const client = clientWith({ socketTimeout: silenceMs })
  // `socketTimeout` would count the time in which a reader pauses. One that does keeps its connection.
  const agent = { maxSockets: Number.POSITIVE_INFINITY }
  const readingClient = clientWith({
    requestTimeout: silenceMs / ATTEMPTS,
    throwOnRequestTimeout: true,
    httpAgent: agent,
    httpsAgent: agent,
  })
  const path = url.pathname.replace(/^\/+|\/+$/g, '')
  const youngMs = msOf('young', YOUNG_MS)
  const [Bucket, prefix] = [url.hostname, path === '' ? '' : `${path}/`]
  const at = (name: string) => ({ Bucket, Key: prefix + name })
  const spool = await openDrafts(folder)
  async function* listed(folder = ''): AsyncGenerator<ListedBlob[], void, void> {
    let ContinuationToken: string | undefined
    do {
      const page = { Bucket, Prefix: prefix + folder, MaxKeys: LISTED_AT_ONCE, ContinuationToken }
      const { Contents, NextContinuationToken } = await client.send(new sdk.ListObjectsV2Command(page)).catch(fail)
      yield (Contents ?? []).map(({ Key, LastModified }) => ({
        name: Key!.slice(prefix.length + folder.length),
        isSettled: async () => LastModified !== undefined && Date.now() - LastModified.getTime() > youngMs,
      }))
      ContinuationToken = NextContinuationToken
    } while (ContinuationToken !== undefined)
  }
  return {
    draft: () =>
      spool.begin(async (path, name) => {
        const file = await open(path)
        try {
          const { size } = await file.stat()
          const Body = file.createReadStream({ autoClose: false })
          // When the store is unavailable, the stream is not read, and its 'error' event would end the process.
          Body.on('error', () => {})
          await client.send(new sdk.PutObjectCommand({ ...at(name), Body, ContentLength: size })).catch(fail)
        } finally {
          await file.close()
        }
        await rm(path, { force: true })
      }),

    async read(name, range, signal) {
      const Range = range ? `bytes=${range.first}-${range.last}` : undefined
      try {
        const command = new sdk.GetObjectCommand({ ...at(name), Range })
        const { Body } = await readingClient.send(command, signal ? { abortSignal: signal } : {})
        return withFailures(Body as Readable, silenceMs, signal)
      } catch (error) {
        if (error instanceof sdk.NoSuchKey || (error as { name?: string }).name === 'NotFound') return null
        return fail(error)
      }
    },

    async remove(name) {
      await client.send(new sdk.DeleteObjectCommand(at(name))).catch(fail)
    },

    list: () => listed(),
    async marks() {
      const marks: ListedBlob[] = []
      for await (const some of listed(`${MARKS}/`)) marks.push(...some)
      return marks
    },

    async mark(id) {
      await client.send(new sdk.PutObjectCommand({ ...at(`${MARKS}/${id}`), Body: '' })).catch(fail)
    },

    async close() {
      client.destroy()
      readingClient.destroy()
      spool.close()
    },
  }
}

/** Passes the bytes through, and fails when no more arrive. */
function withFailures(body: Readable, silenceMs: number, signal: AbortSignal | undefined): Readable {
  const bytes = new PassThrough()
  const watch = setInterval(() => {
    const isPaused = bytes.writableNeedDrain
    if (!isPaused) body.destroy(new Error(`The file store has sent nothing for ${silenceMs} ms`))
  }, silenceMs)
  body.on('data', () => watch.refresh())
  bytes.on('drain', () => watch.refresh())
  body.on('end', () => clearInterval(watch))
  body.on('error', (error) => bytes.destroy(signal?.aborted ? error : failureOf(error)))
  bytes.on('close', () => {
    clearInterval(watch)
    body.destroy()
  })
  return body.pipe(bytes)
}

function fail(error: unknown): never {
  throw failureOf(error)
}

function failureOf(error: unknown): Error {
  if (error instanceof Error && error.name === 'AbortError') return error
  const status = (error as S3ServiceException | null)?.$metadata?.httpStatusCode
  if (status === INSUFFICIENT_STORAGE) return new StorageFullError('files', error)
  const what = REFUSALS.includes(status ?? 0) ? 'refused the request' : 'is not responding'
  return serviceUnavailable(`The file store ${what}; try again later`, RETRY_AFTER_S, error)
}
