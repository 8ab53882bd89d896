import { z } from 'zod'
import { bodyFormat } from '../http/body/body-format.ts'

const MOST_CHARACTERS = 8192

export const fetchRequest = z.object({ url: z.string().min(1).max(MOST_CHARACTERS) })

/** The body of `POST /studio/fetch`. */
export const fetchBody = bodyFormat(import.meta.url, 'fetchRequest', fetchRequest)

export const pagesRequest = z.object({ file_data: z.string().min(1, 'expected base64') })

/** The body of `POST /studio/pages`. */
export const pagesBody = bodyFormat(import.meta.url, 'pagesRequest', pagesRequest)
