import { z } from 'zod'
import { PURPOSES, UPLOAD_PURPOSES } from '../../../files/files.ts'
import { page, requests, responses } from '../../http/wire/components.ts'

export const file = responses.object('File', {
  object: z.literal('file'),
  id: z.string(),
  bytes: z.int(),
  created_at: z.int(),
  filename: z.string(),
  purpose: z.enum(PURPOSES),
  expires_at: z.int().optional().describe('When a file that the server has made is deleted.'),
  sample_type: z
    .string()
    .optional()
    .describe(
      'Present with the purposes `ocr` and `audio`, and with `compatibility: openai`, as are the next two: clients of Mistral’s API need them.',
    ),
  source: z.literal('upload').optional(),
  deleted: z.literal(false).optional(),
  status: z.literal('processed').optional().describe('Only with `compatibility: openai`.'),
})

/** The form of an upload, for `openapi.json` only: uploads are streamed, so no schema parses them. */
export const fileUpload = requests.object('FileUpload', {
  file: z.string().meta({ format: 'binary' }),
  purpose: z.enum(UPLOAD_PURPOSES),
})

/** Both ids are empty on an empty page. */
responses.object('FileList', page(file, z.string()))

export const deletedFile = responses.object('DeletedFile', {
  object: z.literal('file'),
  id: z.string(),
  deleted: z.literal(true),
})

const fileUrl = responses.object('FileUrl', { url: z.string() })

export type FileUrlBody = z.output<typeof fileUrl>
export type FileBody = z.output<typeof file>
export type DeletedFileBody = z.output<typeof deletedFile>
