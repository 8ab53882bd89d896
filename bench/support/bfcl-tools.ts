/**
 * The functions of bfcl-eval as JSON Schema, as its own handlers for OpenAI's API make them: `bfcl_eval/utils.py`
 * (`_func_doc_language_specific_pre_processing`), `model_handler/utils.py` (`convert_to_tool`, `_cast_to_openai_type`) and
 * `constants/type_mappings.py`, of version 2026.3.23.
 */

/** A schema with BFCL's own names of types. */
interface BfclSchema {
  readonly type?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, BfclSchema>>
  readonly items?: BfclSchema
  readonly [keyword: string]: unknown
}

export interface BfclFunction {
  readonly name: string
  readonly description: string
  readonly parameters: BfclSchema
}

export interface FunctionTool {
  readonly name: string
  readonly description: string
  readonly parameters: object
}

const TYPES: Readonly<Record<string, string>> = {
  ...{ integer: 'integer', number: 'number', float: 'number', string: 'string', boolean: 'boolean', bool: 'boolean' },
  ...{ array: 'array', list: 'array', dict: 'object', object: 'object', tuple: 'array', any: 'string' },
  ...{ byte: 'integer', short: 'integer', long: 'integer', double: 'number', char: 'string' },
  ...{ ArrayList: 'array', Array: 'array', HashMap: 'object', Hashtable: 'object', Queue: 'array', Stack: 'array' },
  ...{ Any: 'string', String: 'string', Bigint: 'integer' },
}

/** @param set such as `simple_java`. */
export function bfclTools(functions: readonly BfclFunction[], set: string): FunctionTool[] {
  const isForeign = set.includes('java')
  return functions.map(({ name, description, parameters }) => {
    const properties = Object.entries(parameters.properties ?? {}).map(([key, schema]) => [
      key,
      cast(isForeign ? inWords(schema) : schema),
    ])
    return {
      name: name.replaceAll('.', '_'),
      description,
      parameters: { ...parameters, type: 'object', properties: Object.fromEntries(properties) },
    }
  })
}

/** Values of Java and JavaScript are asked for as text. */
function inWords({ type, items: _, properties: __, ...rest }: BfclSchema): BfclSchema {
  return {
    ...rest,
    type: 'string',
    description: `${rest.description ?? ''} This is a ${type} in string representation.`,
  }
}

function cast(schema: BfclSchema): BfclSchema {
  const { type, properties, items } = schema
  const named: BfclSchema = {
    ...schema,
    type: TYPES[type ?? 'string'] ?? 'string',
    ...(type === 'float' ? { format: 'float' } : {}),
  }
  if (named.type !== 'array' && named.type !== 'object') return named
  if (properties !== undefined) {
    const inner = Object.entries(properties).map(([key, held]) => [key, cast(held)])
    return { ...named, properties: Object.fromEntries(inner) }
  }
  return items === undefined ? named : { ...named, items: castItems(items) }
}

/** Items are not given the format, and only two levels of lists are looked at. */
function castItems(items: BfclSchema): BfclSchema {
  const named: BfclSchema = { ...items, type: TYPES[items.type!]! }
  if (named.type === 'array' && items.items !== undefined) {
    return { ...named, items: { ...items.items, type: TYPES[items.items.type!]! } }
  }
  return named.type === 'object' && items.properties !== undefined
    ? { ...named, properties: cast(named).properties! }
    : named
}
