import type { z } from 'zod'

/** The schema of a request body, and where a worker thread can import it: a schema cannot be sent to a thread. */
export interface BodyFormat<Fields = unknown> {
  readonly schema: z.ZodType<Fields>
  /** URL of the module that exports the schema. */
  readonly module: string
  /** The name of the export. */
  readonly name: string
}

/** @param module `import.meta.url` of the module that exports `schema` as `name`. */
export function bodyFormat<Fields>(module: string, name: string, schema: z.ZodType<Fields>): BodyFormat<Fields> {
  return { schema, module, name }
}
