import type { z } from 'zod'

/** What the body of an endpoint must look like, and where a thread finds that: a schema cannot cross between threads. */
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
