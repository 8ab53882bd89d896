import { z } from 'zod'

const MOST_PAIRS = 16
/** Text that a database can store. */
const storable = z
  .string()
  .refine((text) => text.isWellFormed() && !text.includes('\0'), 'expected text without NUL and half characters')

/** What clients may attach to what they make. It needs a name in `openapi.json`. */
export const metadataPairs = () =>
  z
    .record(storable.max(64), storable.max(512))
    .refine((pairs) => Object.keys(pairs).length <= MOST_PAIRS, `expected at most ${MOST_PAIRS} pairs`)
