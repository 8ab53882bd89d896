/** More replies than this to one question cannot be read at once. */
export const MOST_REPLIES = 1000

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'

/** Letters for `count` options: A, B, C; with 27 or more, AA, AB, AC. */
export function lettersFor(count: number): readonly string[] {
  if (count <= LETTERS.length) return [...LETTERS].slice(0, count)
  return Array.from({ length: count }, (_, i) => LETTERS[Math.floor(i / LETTERS.length)]! + LETTERS[i % LETTERS.length])
}

/** The replies that mean each name. With many names, each has fewer replies. */
export function repliesFor(
  names: readonly string[],
  { replies }: { readonly replies: readonly string[] },
): readonly (readonly string[])[] {
  const each = Math.max(1, Math.floor(MOST_REPLIES / names.length))
  return names.map((name) => [...new Set(replies.map((form) => written(form, name)))].slice(0, each))
}

/** Whether each reply means only one option. */
export function areDistinct(replies: readonly (readonly string[])[]): boolean {
  const all = replies.flat()
  return new Set(all).size === all.length
}

function written(form: string, name: string): string {
  return form.replace(/\{(a |A |)([nN])ame\}(\.?)/, (_, article: string, initial: string, stop: string) => {
    const shown = initial === 'N' ? capital(name) : name
    const ending = /[.!?]$/.test(name) ? '' : stop
    if (article === '') return shown + ending
    const before = /^[aeiou]/i.test(name) ? `${article[0]}n` : article[0]
    return `${before} ${shown}${ending}`
  })
}

function capital(text: string): string {
  const [first = ''] = text
  return first.toUpperCase() + text.slice(first.length)
}
