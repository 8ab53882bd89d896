import type { FamilyName } from '../families/families.ts'

/** Origin of a value from a family, as it is shown. */
export function named(family: FamilyName): string {
  return `family ${family}`
}

/** A field of the card wins. @param wanted whether the family's fields count if the card gives none. */
export function merged(defaults: object | null, given: unknown, wanted: boolean): unknown {
  if (given === undefined) return wanted ? (defaults ?? undefined) : undefined
  return isObject(given) ? { ...defaults, ...given } : given
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
