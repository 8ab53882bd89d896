import { inner, type KeywordReader } from './keyword-reader.ts'
import {
  type Bound,
  type Conjunction,
  isObject,
  otherTypes,
  type Part,
  type Plain,
  type Schema,
  withMember,
  withoutMember,
} from './schema-conjunction.ts'
import { KEYWORDS } from './schema-keywords.ts'

/**
 * For each bound: the bound that a value of the type satisfies if it violates the first, and how far the limit moves.
 */
const BROKEN: Readonly<Record<Bound, readonly [type: string, bound: Bound, distance: number]>> = {
  minLength: ['string', 'maxLength', -1],
  maxLength: ['string', 'minLength', 1],
  minItems: ['array', 'maxItems', -1],
  maxItems: ['array', 'minItems', 1],
  minProperties: ['object', 'maxProperties', -1],
  maxProperties: ['object', 'minProperties', 1],
  minimum: ['number', 'exclusiveMaximum', 0],
  maximum: ['number', 'exclusiveMinimum', 0],
  exclusiveMinimum: ['number', 'maximum', 0],
  exclusiveMaximum: ['number', 'minimum', 0],
}

const SUBSCHEMAS = ['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'items', 'contains']
const OTHERS = ['enum', 'const', 'required', 'properties', 'pattern', 'nullable']
const DEPENDENCIES = ['dependencies', 'dependentRequired', 'dependentSchemas']
const WITHOUT_EFFECT = ['$defs', 'definitions', '$anchor', '$dynamicAnchor', '$recursiveAnchor']
/** Keywords that can be negated without loss. */
const NEGATED = new Set([...Object.keys(BROKEN), ...SUBSCHEMAS, ...OTHERS, ...DEPENDENCIES, ...WITHOUT_EFFECT, 'type'])

/** Whether `negatedOptions` certainly covers all values that a schema does not allow. */
export function isFullyNegated(schema: Schema): boolean {
  const { type, items, contains, oneOf, minContains, maxContains } = schema
  const isCounted = contains !== undefined && (minContains !== undefined || maxContains !== undefined)
  const hasManyPairs = Array.isArray(oneOf) && (oneOf.length * (oneOf.length - 1)) / 2 > MOST_PAIRS
  // No type expresses "a number that is not an integer".
  const isWhole = [type].flat().includes('integer')
  if (isWhole || Array.isArray(items) || isCounted || hasManyPairs) return false
  return Object.keys(schema).every((keyword) => NEGATED.has(keyword) || KEYWORDS.get(keyword)?.effect !== 'enforced')
}

/**
 * The options of a value that a schema does not allow: each violates one of its keywords. Violations that no keyword
 * can express are left out, because every option must be certain to violate the schema.
 * @param of the options of a value that satisfies all of the given parts.
 */
export function negatedOptions(
  part: Part,
  reader: KeywordReader,
  of: (parts: Conjunction) => readonly Plain[],
): readonly Plain[] {
  const schema = part.schema as Schema
  const not = (one: Part): Part => ({ ...one, negated: !one.negated })
  const list = (keyword: string): readonly Part[] => {
    const schemas = schema[keyword]
    return Array.isArray(schemas) ? schemas.map((one, index) => inner(part, one, keyword, index)) : []
  }
  const one = (keyword: string) => inner(part, schema[keyword], keyword)
  const options: Plain[] = []
  const types = reader.typesOf(part)
  if (types !== undefined && otherTypes(types).length > 0) options.push({ types: otherTypes(types) })
  const values = reader.constantsOf(part)
  if (values !== undefined) options.push(values.length === 0 ? {} : { excluded: values })
  if (schema.required !== undefined) {
    for (const name of reader.namesIn(schema.required, [...part.path, 'required']))
      options.push({ types: ['object'], ...withoutMember(name, part.path) })
  }
  for (const [name, held] of reader.schemasIn(schema.properties, [...part.path, 'properties'])) {
    if (held === true || name === '__proto__') continue
    options.push({
      types: ['object'],
      required: [name],
      ...withMember(name, not(inner(part, held, 'properties', name))),
    })
  }
  for (const [bound, value] of Object.entries(reader.boundsOf(part).bounds ?? {})) {
    const [type, other, distance] = BROKEN[bound as Bound]
    if (value + distance >= 0 || distance === 0) {
      const where = { [other]: [...part.path, bound] }
      options.push({ types: [type], bounds: { [other]: value + distance }, where })
    }
  }
  if (typeof schema.pattern === 'string')
    options.push({ types: ['string'], notPatterns: [{ value: schema.pattern, path: [...part.path, 'pattern'] }] })
  if (schema.items !== undefined && !Array.isArray(schema.items) && schema.prefixItems === undefined)
    options.push({ types: ['array'], contains: [{ part: not(one('items')), min: 1, max: null }] })
  if (schema.contains !== undefined && schema.minContains === undefined && schema.maxContains === undefined)
    options.push({ types: ['array'], arrays: [{ prefix: [], rest: not(one('contains')), isEvaluated: false }] })
  for (const inside of list('allOf')) options.push(...of([not(inside)]))
  if (Array.isArray(schema.anyOf)) options.push(...of(list('anyOf').map(not)))
  const alternatives = list('oneOf')
  if (alternatives.length > 0) {
    options.push(...of(alternatives.map(not)))
    const pairs = alternatives.flatMap((a, index) => alternatives.slice(index + 1).map((b) => [a, b]))
    if (pairs.length <= MOST_PAIRS) options.push(...pairs.flatMap((pair) => of(pair)))
  }
  if (schema.not !== undefined) options.push(...of([one('not')]))
  if (schema.if !== undefined) {
    if (schema.then !== undefined) options.push(...of([one('if'), not(one('then'))]))
    if (schema.else !== undefined) options.push(...of([not(one('if')), not(one('else'))]))
  }
  for (const keyword of DEPENDENCIES) {
    for (const [name, demand] of reader.schemasIn(schema[keyword], [...part.path, keyword])) {
      const missing = Array.isArray(demand)
        ? demand.filter((other) => typeof other === 'string').map((other) => withoutMember(other, part.path))
        : isObject(demand) || demand === false
          ? of([not(inner(part, demand, keyword, name))])
          : []
      for (const option of missing) {
        if (option.types === undefined || option.types.includes('object'))
          options.push({ ...option, types: ['object'], required: [...new Set([...(option.required ?? []), name])] })
      }
    }
  }
  return options
}

const MOST_PAIRS = 20
