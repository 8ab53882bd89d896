/** A client's own key may have any length. */
const LONGEST_KEY = 200

/** Formats a path in a request body for errors: `messages[0].content[1].image_url.url`; null for the body itself. */
export function paramOf(path: readonly PropertyKey[]): string | null {
  let param = ''
  for (const key of path) {
    if (typeof key === 'number') param += `[${key}]`
    else param += `${param === '' ? '' : '.'}${shortened(String(key))}`
  }
  return param === '' ? null : param
}

function shortened(key: string): string {
  return key.length <= LONGEST_KEY ? key : `${key.slice(0, LONGEST_KEY).toWellFormed()}…`
}
