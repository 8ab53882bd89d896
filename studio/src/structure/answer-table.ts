export interface Table {
  readonly columns: readonly string[]
  readonly rows: readonly Readonly<Record<string, unknown>>[]
}

/** An answer that is a list of objects, or has exactly one such list, as a table; null for all others. */
export function tableOf(answer: unknown): Table | null {
  const list = listIn(answer)
  if (list === null) return null
  return { columns: [...new Set(list.flatMap((row) => Object.keys(row)))], rows: list }
}

type Objects = readonly Readonly<Record<string, unknown>>[]

function listIn(value: unknown): Objects | null {
  if (isList(value)) return value
  if (!isObject(value)) return null
  const lists = Object.values(value).filter(isList)
  return lists.length === 1 ? lists[0]! : null
}

function isList(value: unknown): value is Objects {
  return Array.isArray(value) && value.length > 0 && value.every(isObject)
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
