/** A function that the model may call. */
export interface Tool {
  readonly name: string
  readonly description: string | null
  /** JSON text of the arguments' schema, as the client wrote it; null for a function without parameters. */
  readonly parameters: string | null
}

/** Returns the schema that constrains the arguments. Arguments are an object even if the schema allows other types. */
export function argumentsSchema({ parameters }: Tool): unknown {
  const schema: Record<string, unknown> = parameters === null ? { additionalProperties: false } : JSON.parse(parameters)
  // Not a copy: a client may send a hundred thousand keywords.
  schema.type = 'object'
  return schema
}
