import Ajv, { type Options, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { FORMATS } from '../../../inference/constraints/schema/formats.ts'
import { isEqual, isIn } from '../../../inference/constraints/schema/schema-conjunction.ts'

/** Creates a validator of JSON values as `JSON.parse` returns them. Keys such as `toString` have no special meaning. */
export function schemaValidator(schema: object | boolean, code?: Options['code']): ValidateFunction {
  // Without a logger, unknown formats are silently ignored.
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
    validate: (values: unknown[], value: unknown) => isIn(value, values),
  })
  ajv.removeKeyword('const').addKeyword({ keyword: 'const', validate: isEqual })
  return ajv.compile(schema)
}
