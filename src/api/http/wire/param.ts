/** A place in a request body as errors name it: `messages[0].content[1].image_url.url`. */
export function paramOf(path: readonly PropertyKey[]): string | null {
  let param = ''
  for (const key of path) {
    if (typeof key === 'number') param += `[${key}]`
    else param += param === '' ? String(key) : `.${String(key)}`
  }
  return param === '' ? null : param
}
