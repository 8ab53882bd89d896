import type { FastifyInstance } from 'fastify'
import { OPEN_PATHS } from '../http/access/auth.ts'
import { addPage } from './page.ts'
import type { PageFiles } from './page-files.ts'

/** `GET /studio`. */
export function addStudio(app: FastifyInstance, files: PageFiles): void {
  addPage(app, {
    url: OPEN_PATHS.studio,
    filesUrl: OPEN_PATHS.studioFiles,
    files: async () => files,
    permissions: 'camera=(self), microphone=(), geolocation=()',
  })
}
