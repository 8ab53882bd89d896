import { z } from 'zod'
import { PURPOSES, UPLOAD_PURPOSES } from '../../../files/files.ts'
import { requestSchemas, responseSchemas } from '../../http/wire/components.ts'

export const file = z
  .object({
    object: z.literal('file'),
    id: z.string(),
    bytes: z.int(),
    created_at: z.int(),
    filename: z.string(),
    purpose: z.enum(PURPOSES),
    expires_at: z.int().optional().describe('When an output file of a batch is deleted.'),
    status: z.literal('processed').optional().describe('Only with `compatibility: openai`.'),
  })
  .register(responseSchemas, { id: 'File' })

/** The form of an upload, for `openapi.json` only: uploads are streamed, so no schema parses them. */
export const fileUpload = z
  .object({ file: z.string().meta({ format: 'binary' }), purpose: z.enum(UPLOAD_PURPOSES) })
  .register(requestSchemas, { id: 'FileUpload' })

/** Both ids are empty on an empty page. */
export const fileList = z
  .object({
    object: z.literal('list'),
    data: z.array(file),
    first_id: z.string(),
    last_id: z.string(),
    has_more: z.boolean(),
  })
  .register(responseSchemas, { id: 'FileList' })

export const deletedFile = z
  .object({ object: z.literal('file'), id: z.string(), deleted: z.literal(true) })
  .register(responseSchemas, { id: 'DeletedFile' })

export type FileBody = z.output<typeof file>
export type FileListBody = z.output<typeof fileList>
export type DeletedFileBody = z.output<typeof deletedFile>
