import { inner } from './keyword-reader.ts'
import type { ArrayShape, ObjectShape, Part, Plain, Schema } from './schema-conjunction.ts'

/**
 * Adds the conditions of a schema's `unevaluatedProperties` and `unevaluatedItems` to an option: they apply to members
 * and items that nothing else in the option describes.
 * @returns the same option if they have no effect.
 */
export function withUnevaluated(part: Part, plain: Plain): Plain {
  const { unevaluatedProperties, unevaluatedItems } = part.schema as Schema
  if (unevaluatedProperties === undefined && unevaluatedItems === undefined) return plain
  const shapes = (plain.objects ?? []).filter(({ isEvaluated }) => isEvaluated)
  const arrays = (plain.arrays ?? []).filter(({ isEvaluated }) => isEvaluated)
  const object: ObjectShape = {
    properties: new Map(
      shapes.flatMap(({ properties }) => Array.from(properties, ([name, one]) => [name, always(one)])),
    ),
    patterns: shapes.flatMap(({ patterns }) => patterns.map((pattern) => ({ ...pattern, part: always(pattern.part) }))),
    additional: inner(part, unevaluatedProperties, 'unevaluatedProperties'),
    isEvaluated: true,
  }
  const longest = Math.max(0, ...arrays.map(({ prefix }) => prefix.length))
  const array: ArrayShape = {
    prefix: Array.from({ length: longest }, () => inner(part, true, 'unevaluatedItems')),
    rest: inner(part, unevaluatedItems, 'unevaluatedItems'),
    isEvaluated: true,
  }
  const isObjectOpen = unevaluatedProperties !== undefined && shapes.every(({ additional }) => additional === undefined)
  const isArrayOpen = unevaluatedItems !== undefined && arrays.every(({ rest }) => rest === undefined)
  if (!isObjectOpen && !isArrayOpen) return plain
  return {
    ...plain,
    ...(isObjectOpen && { objects: [...(plain.objects ?? []), object] }),
    ...(isArrayOpen && { arrays: [...(plain.arrays ?? []), array] }),
  }
}

function always(part: Part): Part {
  return { ...part, schema: true, negated: false }
}
