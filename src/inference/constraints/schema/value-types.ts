import { getOrMake } from '../../../lib/get-or-make.ts'
import type { Plain } from './schema-conjunction.ts'
import { typeOf } from './schema-conjunction.ts'
import { partOfRoot, SchemaOptions, TooComplex } from './schema-options.ts'

/** Type names as in schemas; null for any type. */
export type ValueTypes = readonly string[] | null

/**
 * Returns a function from a member's name to the types that its values may have in the objects that a schema describes.
 */
export function memberTypes(root: unknown): (name: string) => ValueTypes {
  const options = new SchemaOptions(root, () => {}, true)
  const known = new Map<string, ValueTypes>()
  return (name) => getOrMake(known, name, () => typesOfMember(options, root, name))
}

function typesOfMember(options: SchemaOptions, root: unknown, name: string): ValueTypes {
  try {
    const objects = options.of([partOfRoot(root)]).filter(({ types }) => types?.includes('object') ?? true)
    const members = objects.flatMap((plain) => {
      const parts = options.check.memberParts(plain, name).filter(({ schema, negated }) => schema !== negated)
      return options.of(parts).map(typesIn)
    })
    return members.length === 0 || members.includes(null)
      ? null
      : [...new Set((members as (readonly string[])[]).flat())]
  } catch (error) {
    if (error instanceof TooComplex) return null
    throw error
  }
}

function typesIn({ types, enum: values }: Plain): ValueTypes {
  return values === undefined ? (types ?? null) : [...new Set(values.map(typeOf))]
}
