import { z } from 'zod'
import { responseSchemas } from './components.ts'

const errorDetails = z
  .object({
    message: z.string(),
    type: z.string().nullable(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  })
  .register(responseSchemas, { id: 'ErrorDetails' })

/** Body of every error response. */
export const errorBody = z.object({ error: errorDetails }).register(responseSchemas, { id: 'Error' })
