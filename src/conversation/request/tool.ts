/** A function that the model may call. */
export interface Tool {
  readonly name: string
  readonly description: string | null
  /** JSON text of the arguments' schema, as the client wrote it; null for a function without parameters. */
  readonly parameters: string | null
}

/** The schema that constrains the arguments. Arguments are always an object, so it adds that type. */
export function argumentsSchema({ parameters }: Tool): unknown {
  const schema: Record<string, unknown> = parameters === null ? NO_ARGUMENTS : JSON.parse(parameters)
  return SHAPES.some((keyword) => Object.hasOwn(schema, keyword)) ? schema : { ...schema, type: 'object' }
}

const NO_ARGUMENTS = { additionalProperties: false }
/** Keywords that define a value's shape; `type` may not be added beside them. */
const SHAPES = ['$ref', 'anyOf', 'oneOf', 'allOf', 'enum', 'const']
