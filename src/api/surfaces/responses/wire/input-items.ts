import { z } from 'zod'
import { page, responseSchemas, responses } from '../../../http/wire/components.ts'

const part = z
  .looseObject({ type: z.string() })
  .register(responseSchemas, { id: 'ResponseItemPart' })
  .describe('Media that came with the request is stored as files; `/v1/files/{file_id}/content` returns their bytes.')

/** An item of the request's input, or of an earlier response's output. */
const item = z
  .looseObject({
    id: z.string(),
    type: z.enum(['message', 'function_call', 'function_call_output', 'reasoning']),
    status: z.enum(['in_progress', 'completed', 'incomplete']),
    role: z.enum(['user', 'system', 'developer', 'assistant']).optional(),
    content: z.array(part).optional(),
    output: z.union([z.string(), z.array(part)]).optional(),
  })
  .register(responseSchemas, { id: 'ResponseInputItem' })

/** A page of the items that a response answers. Both ids are null on an empty page. */
export const inputItemList = responses.object('ResponseInputItemList', page(item, z.string().nullable()))

export type InputItemListBody = z.output<typeof inputItemList>
