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

/** A parameter as far as notations without a schema of their own can keep to it. */
export interface Parameter {
  readonly name: string
  readonly required: boolean
  /** Null for any. */
  readonly types: readonly string[] | null
  /** The only values that it may have, where all of them are texts. */
  readonly texts: readonly string[] | null
}

/** In the order in which they are described. */
export function parametersOf(tool: Tool): Parameter[] {
  const { properties, required } = argumentsSchema(tool) as { properties?: unknown; required?: unknown }
  if (typeof properties !== 'object' || properties === null) return []
  const needed = new Set(Array.isArray(required) ? required : [])
  return Object.entries(properties).map(([name, schema]) => {
    const { type, enum: values } = (schema ?? {}) as { type?: unknown; enum?: unknown }
    const types = typeof type === 'string' ? [type] : Array.isArray(type) ? type.filter(isText) : null
    const texts = Array.isArray(values) && values.length > 0 && values.every(isText) ? values : null
    return { name, required: needed.has(name), types, texts }
  })
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}
