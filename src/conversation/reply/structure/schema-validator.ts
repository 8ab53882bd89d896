import Ajv, { type Options, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { FORMATS } from '../../../inference/constraints/schema/formats.ts'

/** Creates a validator of JSON values as `JSON.parse` returns them. Keys such as `toString` have no special meaning. */
export function schemaValidator(schema: object | boolean, code?: Options['code']): ValidateFunction {
  // Without a logger, unknown formats are ignored in silence.
  const ajv = new Ajv.default({
    ...{ strict: false, validateSchema: false, ownProperties: true, logger: false },
    ...(code && { code }),
  })
  addFormats.default(ajv)
  // Replies follow the formats that the engine knows. Others have no effect.
  for (const name of Object.keys(ajv.formats)) if (!Object.hasOwn(FORMATS, name)) delete ajv.formats[name]
  // Ajv's own comparison calls `toString` and `valueOf` if a value has these keys.
  ajv.removeKeyword('enum').addKeyword({
    keyword: 'enum',
    schemaType: 'array',
    validate: (values: unknown[], value: unknown) => values.some((allowed) => equalJson(allowed, value)),
  })
  ajv.removeKeyword('const').addKeyword({ keyword: 'const', validate: equalJson })
  return ajv.compile(schema)
}

function equalJson(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && equalJson(a[key as keyof typeof a], b[key as keyof typeof b]))
  )
}
