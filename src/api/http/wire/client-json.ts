/** Schemas of clients' own data: maps with their own keys, and JSON of any shape. */
import { core, z } from 'zod'
import { LONGEST_SCHEMA } from '../../../lib/json/json-depth.ts'

interface MapLimits {
  readonly key?: z.ZodString | undefined
  /** @returns the problem with this number of keys, or null. It is checked before the keys. */
  readonly sizeProblem?: (size: number) => string | null
}

const ANY_SIZE = () => null

/**
 * A map with the client's own keys. Unlike `z.record`, it keeps the key `__proto__`, and stops at the first issue instead
 * of listing one per key.
 */
export function clientMap<Value extends z.ZodType>(
  value: Value,
  { key = z.string(), sizeProblem = ANY_SIZE }: MapLimits = {},
): z.ZodRecord<z.ZodString, Value> {
  return new ClientMap({ type: 'record', keyType: key, valueType: value, sizeProblem }) as z.ZodRecord<
    z.ZodString,
    Value
  >
}

interface ClientMapDef extends core.$ZodRecordDef {
  readonly sizeProblem: (size: number) => string | null
}

const ClientMap = core.$constructor<z.ZodRecord, ClientMapDef>('ClientMap', (inst, def) => {
  z.ZodRecord.init(inst, def)
  const { keyType, valueType, sizeProblem } = def
  const parseOther = inst._zod.parse
  inst._zod.parse = (payload, context) => {
    const { value: input } = payload
    // The issue includes the received type.
    if (!core.util.isPlainObject(input)) return parseOther(payload, context)
    const entries = Object.entries(input)
    const message = sizeProblem(entries.length)
    if (message !== null) {
      payload.issues.push({ code: 'custom', input, inst, message })
      return payload
    }
    const parsed: Record<string, unknown> = {}
    for (const [name, member] of entries) {
      if (resultOf(keyType, name, name) === FAULTY) return payload
      const result = resultOf(valueType, member, name)
      if (result === FAULTY) return payload
      // An assignment would set the map's prototype.
      if (name === '__proto__') Object.defineProperty(parsed, name, { ...OWN, value: result })
      else parsed[name] = result
    }
    payload.value = parsed
    return payload

    function resultOf(schema: core.SomeType, value: unknown, name: string): unknown {
      const result = schema._zod.run({ value, issues: [] }, context)
      if (result instanceof Promise) throw new Error('A schema of a request must not be asynchronous')
      payload.issues.push(...core.util.prefixIssues(name, result.issues))
      return result.issues.length > 0 ? FAULTY : result.value
    }
  }
})

const FAULTY = Symbol()
const OWN = { configurable: true, enumerable: true, writable: true }

/**
 * Converts the client's JSON to text, which the model is shown. A large body is parsed in a thread, and passing an object
 * with many keys to the event loop takes longer than parsing it.
 */
export function asText<Value extends z.ZodType>(json: Value) {
  return json.transform((value) => JSON.stringify(value))
}

/** A JSON schema. A longer one could not be enforced. */
export const jsonSchema = z.unknown().superRefine(checkLength)

/** Checks the length of a schema, for fields that allow only objects. */
export function checkLength(schema: unknown, context: z.core.$RefinementCtx<unknown>): void {
  const { length = 0 } = JSON.stringify(schema) ?? ''
  if (length <= LONGEST_SCHEMA) return
  const message = `the schema has ${length} characters, at most ${LONGEST_SCHEMA} are supported`
  context.addIssue({ code: 'custom', message, params: { code: 'invalid_response_format' } })
}
