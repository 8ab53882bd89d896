/** Pages and ranges of pages, comma-separated. A range without an end goes to the last page. */
export const PAGE_SELECTION = /^ *[1-9]\d{0,5}( *- *([1-9]\d{0,5})?)?( *, *[1-9]\d{0,5}( *- *([1-9]\d{0,5})?)?)* *$/

/**
 * The pages that a selection names, from 1, each once and in its order.
 * @param selection in the form of `PAGE_SELECTION`; null for all pages.
 * @param count of the document's pages.
 * @returns a number in place of the pages: one that is named, and that the document does not have.
 */
export function pagesOf(selection: string | null, count: number): readonly number[] | number {
  const pages = new Set<number>()
  for (const range of (selection ?? '1-').split(',')) {
    const [first, last] = range.split('-').map((text) => text.trim()) as [string, string?]
    const from = Number(first)
    const to = last === undefined ? from : last === '' ? Math.max(from, count) : Number(last)
    if (Math.max(from, to) > count) return Math.max(from, to)
    for (let page = from; page <= to; page++) pages.add(page)
  }
  return [...pages]
}
