/** Formats a path in a request body for errors: `messages[0].content[1].image_url.url`; null for the body itself. */
export function paramOf(path: readonly PropertyKey[]): string | null {
  let param = ''
  for (const key of path) {
    if (typeof key === 'number') param += `[${key}]`
    else param += param === '' ? String(key) : `.${String(key)}`
  }
  return param === '' ? null : param
}
