/*
 * Reads values whose shape is not known: sessions come from files of anyone. Each throws an Error for another shape.
 */

export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error('expected an object')
  return value as Record<string, unknown>
}

export function listOf<Item>(value: unknown, read: (item: unknown) => Item): Item[] {
  if (!Array.isArray(value)) throw new Error('expected a list')
  return value.map(read)
}

export function textOf(value: unknown): string {
  if (typeof value !== 'string') throw new Error('expected a text')
  return value
}

/** A number as a person types it: whether it is in its range, the server says. */
export function finiteOf(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error('expected a number')
  return value
}

/** A number that is not negative. */
export function numberOf(value: unknown): number {
  if (finiteOf(value) < 0) throw new Error('expected a number that is not negative')
  return value as number
}

export function orNull<Value>(value: unknown, read: (value: unknown) => Value): Value | null {
  return value === null || value === undefined ? null : read(value)
}

/** The defaults, with the members of `value` whose type is that of the default or of a number where that is null. */
export function optionsOf<Options extends object>(value: unknown, defaults: Options): Options {
  const given = recordOf(value)
  return Object.fromEntries(
    Object.entries(defaults).map(([name, byDefault]) => {
      const own = given[name]
      const fits = typeof own === typeof byDefault && own !== null
      return [name, fits || (byDefault === null && typeof own === 'number') ? own : byDefault]
    }),
  ) as Options
}
