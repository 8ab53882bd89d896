/** A function that the model may call. */
export interface Tool {
  readonly name: string
  readonly description: string | null
  /** JSON text of the schema of the arguments, as the client wrote it; null for a function without any. */
  readonly parameters: string | null
}

/** The schema that arguments are bound to: they are an object whatever else it says. */
export function argumentsSchema({ parameters }: Tool): unknown {
  const schema: Record<string, unknown> = parameters === null ? NO_ARGUMENTS : JSON.parse(parameters)
  return SHAPES.some((keyword) => Object.hasOwn(schema, keyword)) ? schema : { ...schema, type: 'object' }
}

const NO_ARGUMENTS = { additionalProperties: false }
/** These say themselves what a value is; a type may not stand beside them. */
const SHAPES = ['$ref', 'anyOf', 'oneOf', 'allOf', 'enum', 'const']
