import { open, rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { S3Client, S3ClientConfig, S3ServiceException } from '@aws-sdk/client-s3'
import { serviceUnavailable } from '../lib/errors.ts'
import type { BlobStore, ByteRange, Draft, KnownNames } from './blob-store.ts'
import { DraftFolder } from './draft-folder.ts'
import { storageFull } from './storage-full.ts'

/** A younger object may belong to another server on the same bucket that has not written its row yet. */
const YOUNG_MS = 3_600_000
const REMOVE_AT_ONCE = 1_000
const RETRY_AFTER_S = 5
const CONNECT_TIMEOUT_MS = 3_000
const REQUEST_TIMEOUT_MS = 30_000
/** How S3-compatible stores say that they are full. */
const INSUFFICIENT_STORAGE = 507

type Sdk = typeof import('@aws-sdk/client-s3')

/**
 * Stores blobs as objects in a bucket of any S3-compatible store. An upload is written to a file first: S3 needs its
 * length, and a rejected upload must not leave the machine.
 */
export class S3Blobs implements BlobStore {
  readonly #sdk: Sdk
  readonly #client: S3Client
  readonly #bucket: string
  readonly #prefix: string
  readonly #spool: DraftFolder
  readonly #youngMs: number

  private constructor(sdk: Sdk, client: S3Client, bucket: string, prefix: string, spool: DraftFolder, youngMs: number) {
    this.#sdk = sdk
    this.#client = client
    this.#bucket = bucket
    this.#prefix = prefix
    this.#spool = spool
    this.#youngMs = youngMs
  }

  /**
   * @param url `s3://bucket/prefix?endpoint=https://...&region=...`; the endpoint is Amazon's by default. `young`, in
   * seconds, replaces `YOUNG_MS`. Credentials come from the usual AWS sources (`AWS_ACCESS_KEY_ID`, profiles, roles).
   * @param spool folder for uploads on their way.
   */
  static async open(url: URL, spool: string): Promise<S3Blobs> {
    const sdk = await import('@aws-sdk/client-s3')
    const endpoint = url.searchParams.get('endpoint')
    const config: S3ClientConfig = {
      region: url.searchParams.get('region') ?? process.env.AWS_REGION ?? 'us-east-1',
      ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
      maxAttempts: 3,
      // Everything that it would log is also thrown as an error.
      logger: { trace() {}, debug() {}, info() {}, warn() {}, error() {} },
      requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS },
      // Not every S3-compatible store supports the newer checksums.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    }
    const path = url.pathname.replace(/^\/+|\/+$/g, '')
    const young = url.searchParams.get('young')
    return new S3Blobs(
      sdk,
      new sdk.S3Client(config),
      url.hostname,
      path === '' ? '' : `${path}/`,
      await DraftFolder.open(spool),
      young === null ? YOUNG_MS : Number(young) * 1000,
    )
  }

  draft(): Promise<Draft> {
    return this.#spool.begin(async (path, name) => {
      const file = await open(path)
      try {
        const { size } = await file.stat()
        const Body = file.createReadStream({ autoClose: false })
        // When the store is unavailable, the stream is not read, and its 'error' event would end the process.
        Body.on('error', () => {})
        await this.#send(() =>
          this.#client.send(new this.#sdk.PutObjectCommand({ ...this.#at(name), Body, ContentLength: size })),
        )
      } finally {
        await file.close()
      }
      await rm(path, { force: true })
    })
  }

  async read(name: string, range: ByteRange | null, signal?: AbortSignal): Promise<Readable | null> {
    const Range = range ? `bytes=${range.first}-${range.last}` : undefined
    try {
      const command = new this.#sdk.GetObjectCommand({ ...this.#at(name), Range })
      const { Body } = await this.#client.send(command, signal ? { abortSignal: signal } : {})
      return Body as Readable
    } catch (error) {
      if (error instanceof this.#sdk.NoSuchKey || (error as { name?: string }).name === 'NotFound') return null
      throw translate(error)
    }
  }

  async remove(name: string): Promise<void> {
    await this.#send(() => this.#client.send(new this.#sdk.DeleteObjectCommand(this.#at(name))))
  }

  async sweep(known: KnownNames): Promise<number> {
    let removed = 0
    let token: string | undefined
    do {
      const page = await this.#send(() =>
        this.#client.send(
          new this.#sdk.ListObjectsV2Command({
            Bucket: this.#bucket,
            Prefix: this.#prefix,
            MaxKeys: REMOVE_AT_ONCE,
            ContinuationToken: token,
          }),
        ),
      )
      const old = (page.Contents ?? []).filter(({ LastModified }) => {
        return LastModified !== undefined && Date.now() - LastModified.getTime() > this.#youngMs
      })
      const names = old.map(({ Key }) => Key!.slice(this.#prefix.length))
      const keep = names.length === 0 ? new Set<string>() : await known(names)
      for (const name of names) {
        if (keep.has(name)) continue
        await this.remove(name)
        removed++
      }
      token = page.NextContinuationToken
    } while (token !== undefined)
    return removed
  }

  async close(): Promise<void> {
    this.#client.destroy()
    this.#spool.close()
  }

  #at(name: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: this.#prefix + name }
  }

  async #send<Result>(send: () => Promise<Result>): Promise<Result> {
    try {
      return await send()
    } catch (error) {
      throw translate(error)
    }
  }
}

function translate(error: unknown): unknown {
  if (error instanceof Error && error.name === 'AbortError') return error
  if (httpStatusOf(error) === INSUFFICIENT_STORAGE) return storageFull('files', error)
  return serviceUnavailable('The file store is not responding; try again later', RETRY_AFTER_S, error)
}

function httpStatusOf(error: unknown): number | undefined {
  return (error as S3ServiceException | null)?.$metadata?.httpStatusCode
}
