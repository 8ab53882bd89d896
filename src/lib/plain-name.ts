/**
 * A name as models read and write it: with stray blanks, they find nothing. Half a character becomes U+FFFD, as in
 * prompts.
 */
export function plainName(name: string): string {
  return name.toWellFormed().replace(/\s+/g, ' ').trim()
}
