import { z } from 'zod'
import { PURPOSES } from '../../files/index.ts'

export const file = z.object({
  object: z.literal('file'),
  id: z.string(),
  bytes: z.int(),
  created_at: z.int(),
  filename: z.string(),
  purpose: z.enum(PURPOSES),
})

/** Both ids are empty on an empty page. */
export const fileList = z.object({
  object: z.literal('list'),
  data: z.array(file),
  first_id: z.string(),
  last_id: z.string(),
  has_more: z.boolean(),
})

export const deletedFile = z.object({ object: z.literal('file'), id: z.string(), deleted: z.literal(true) })

export type FileBody = z.output<typeof file>
export type FileListBody = z.output<typeof fileList>
export type DeletedFileBody = z.output<typeof deletedFile>
