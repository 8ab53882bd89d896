import { z } from 'zod'
import { responses } from './components.ts'

const errorDetails = responses.object('ErrorDetails', {
  message: z.string(),
  type: z.string().nullable(),
  param: z.string().nullable(),
  code: z.string().nullable(),
})

/** Body of every error response. */
export const errorBody = responses.object('Error', { error: errorDetails })
