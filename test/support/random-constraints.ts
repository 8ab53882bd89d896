import fc from 'fast-check'

const characters = fc.constantFrom(...'abXY01 -_.,"\\\'/é漢😀')
const quote = (character: string) => (/[\p{L}\p{N}"',_ é漢😀]/u.test(character) ? character : `\\${character}`)
/** Regular expressions in the dialect of `regex/parser.ts`. */
export const randomPatterns = fc.letrec<{ any: string }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    characters.map(quote),
    // Equal steps to different places.
    fc.constantFrom('(?:[ab]|[ab]b|[ab]bX)(?:Y)?', '[ab]*[ab]bX', '(?:ab)*abX', '(?:[ab]{1,3}|a){2}b'),
    fc.constantFrom('\\d', '\\w', '\\s', '.', '\\S', '\\W'),
    fc.array(characters.map(quote), { minLength: 1, maxLength: 3 }).map((set) => `[${set.join('')}]`),
    fc.array(characters.map(quote), { minLength: 1, maxLength: 3 }).map((set) => `[^${set.join('')}]`),
    fc.array(tie('any'), { maxLength: 3 }).map((parts) => `(?:${parts.join('')})`),
    fc.array(tie('any'), { minLength: 1, maxLength: 3 }).map((parts) => `(${parts.join('|')})`),
    fc.tuple(tie('any'), fc.constantFrom('*', '+', '?', '{2}', '{1,3}', '{2,}')).map((pair) => `(?:${pair.join(')')}`),
  ),
})).any

const keys = fc.constantFrom('a', 'b', 'size', 'é"', 'long name')
const numbers = fc.oneof(
  fc.integer({ min: -2000, max: 2000 }),
  fc.integer({ min: -500, max: 500 }).map((n) => n / 100),
)
const bounds = fc.tuple(numbers, numbers).map(([a, b]) => ({ minimum: Math.min(a, b), maximum: Math.max(a, b) + 1 }))
const counts = (min: string, max: string) =>
  fc.tuple(fc.nat(4), fc.nat(4)).map(([a, b]) => ({ [min]: Math.min(a, b), [max]: Math.max(a, b) }))
/** Without integers that doubles round. */
const constants = fc.jsonValue().filter((value) => !/(?<![\d.])\d{16,}(?![\d.e])/.test(JSON.stringify(value)))
/** JSON schemas that constraints support. */
export const randomSchemas = fc.letrec<{ any: object }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<object>(
      { type: 'string' },
      { type: 'integer' },
      { type: 'number' },
      { type: 'boolean' },
      { type: 'null' },
    ),
    counts('minLength', 'maxLength').map((lengths) => ({ type: 'string', ...lengths })),
    fc.constantFrom('^[a-c]+$', '\\d{2,4}-x', '[^z]{1,5}', '(yes|no)').map((pattern) => ({ type: 'string', pattern })),
    fc
      .constantFrom('date', 'time', 'date-time', 'uuid', 'email', 'hostname', 'ipv4', 'ipv6', 'uri')
      .map((format) => ({ type: 'string', format })),
    bounds.map((range) => ({ type: 'number', ...range })),
    bounds.map((range) => ({ type: 'integer', ...range })),
    bounds.map(({ minimum, maximum }) => ({
      type: 'number',
      exclusiveMinimum: minimum,
      exclusiveMaximum: maximum,
    })),
    fc.array(constants, { minLength: 1, maxLength: 4 }).map((values) => ({ enum: values })),
    fc.tuple(tie('any'), counts('minItems', 'maxItems')).map(([items, size]) => ({ type: 'array', items, ...size })),
    fc.array(tie('any'), { minLength: 1, maxLength: 3 }).map((prefixItems) => ({ type: 'array', prefixItems })),
    fc.array(tie('any'), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf })),
    fc
      .tuple(fc.dictionary(keys, tie('any'), { maxKeys: 4 }), fc.infiniteStream(fc.boolean()))
      .map(([properties, draws]) => ({
        type: 'object',
        properties,
        required: Object.keys(properties).filter(() => draws.next().value),
        additionalProperties: false,
      })),
  ),
})).any
