import { z } from 'zod'

/** Body of every answer that is no success. */
export const errorBody = z.object({
  error: z.object({
    message: z.string(),
    type: z.string().nullable(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  }),
})
