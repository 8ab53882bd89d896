/** The keys and indices of a value in a request: `['messages', 0, 'content']`. */
export type Path = readonly (string | number)[]

/** A parameter of a request. A string is the name of a top-level parameter. */
export type Param = string | Path

/** Maps the conversation's parameters to those of an API. */
export type Names = (path: Path) => Path

export function pathOf(param: Param): Path {
  return typeof param === 'string' ? [param] : param
}

/** A value within a parameter. */
export function within(param: Param, ...keys: Path): Path {
  return [...pathOf(param), ...keys]
}

/** Whether a path is that of a parameter or of a value in it. */
export function isWithin(path: Path, param: Path): boolean {
  return param.every((key, level) => path[level] === key)
}

export function isSameParam(one: Param, other: Param): boolean {
  const [path, otherPath] = [pathOf(one), pathOf(other)]
  return path.length === otherPath.length && isWithin(path, otherPath)
}

/** A client's own key may have any length. */
const LONGEST_KEY = 200

/** A parameter in the notation of errors: `messages[0].content[1].image_url.url`; null for the request itself. */
export function shownName(path: readonly PropertyKey[]): string | null {
  return nameOf(path.map((key) => (typeof key === 'string' ? shortened(key) : key)))
}

function shortened(key: string): string {
  return key.length <= LONGEST_KEY ? key : `${key.slice(0, LONGEST_KEY).toWellFormed()}…`
}

/** The same with keys of any length. Rooms that do not know paths identify parameters by it. */
export function nameOf(path: readonly PropertyKey[]): string | null {
  let name = ''
  for (const key of path) {
    if (typeof key === 'number') name += `[${key}]`
    else name += name === '' ? String(key) : `.${String(key)}`
  }
  return name === '' ? null : name
}

/** Renames parameters, and values in them, by a table. The first matching row applies. */
export function namesOf(table: readonly (readonly [from: Path, to: Path])[]): Names {
  return (path) => {
    const row = table.find(([from]) => isWithin(path, from))
    return row === undefined ? path : [...row[1], ...path.slice(row[0].length)]
  }
}
