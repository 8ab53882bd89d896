import type { FastifyInstance } from 'fastify'
import { OPEN_PATHS } from '../http/access/auth.ts'
import { addPage } from './page.ts'
import { type PageFiles, readPage } from './page-files.ts'

/**
 * `GET /docs`: the reference of the API, which shows `openapi.json`. Its files are read on the first request: they take
 * 3 MB of memory, and most servers never need them.
 * @param directory has the built page.
 */
export function addReference(app: FastifyInstance, directory: string): void {
  let files: Promise<PageFiles> | null = null
  addPage(app, {
    url: OPEN_PATHS.reference,
    filesUrl: OPEN_PATHS.referenceFiles,
    files: () => {
      files ??= readPage(directory).then((found) => found ?? new Map())
      return files
    },
    permissions: 'camera=(), microphone=(), geolocation=()',
  })
}
