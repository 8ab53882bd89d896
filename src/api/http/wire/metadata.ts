import { z } from 'zod'
import { clientMap } from './client-json.ts'

const MOST_PAIRS = 16
const LONGEST_KEY = 64

/** Text that a database can store. */
export const storable = z
  .string()
  .refine((text) => text.isWellFormed() && !text.includes('\0'), 'expected text without NUL and half characters')

/** Metadata that clients may attach to their objects. It needs a name in `openapi.json`. */
export const metadataPairs = () =>
  clientMap(storable.max(512), {
    key: storable.max(LONGEST_KEY, `expected keys of at most ${LONGEST_KEY} characters`),
    sizeProblem: (size) => (size > MOST_PAIRS ? `expected at most ${MOST_PAIRS} pairs` : null),
  })
