import { fileURLToPath } from 'node:url'
import type { BlobStore } from './blob-store.ts'
import { openDiskBlobs } from './disk-blobs.ts'
import { openS3Blobs } from './s3-blobs.ts'

/**
 * Opens the configured blob store.
 * @param location an absolute path, or `s3://bucket/prefix?endpoint=...&region=...`
 * @param spool folder for uploads on their way to a remote store.
 */
export async function openBlobs(location: string, spool: string): Promise<BlobStore> {
  if (location.startsWith('s3://')) return openS3Blobs(new URL(location), spool)
  return openDiskBlobs(location.startsWith('file://') ? fileURLToPath(location) : location)
}
