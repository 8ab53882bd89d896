/** A random id. `crypto.randomUUID` is missing where the page is served over plain HTTP from another machine. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
