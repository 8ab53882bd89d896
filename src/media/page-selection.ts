/** Pages and ranges of pages, comma-separated. A range without an end goes to the last page. */
export const PAGE_SELECTION = /^ *[1-9]\d{0,5} *(- *([1-9]\d{0,5} *)?)?(, *[1-9]\d{0,5} *(- *([1-9]\d{0,5} *)?)?)*$/

/** Whether each range of a selection goes forward: one that goes back has no pages. */
export function goesForward(selection: string): boolean {
  return selection.split(',').every((range) => {
    const [first, last] = range.split('-')
    return !last?.trim() || Number(first) <= Number(last)
  })
}

/**
 * The pages that a selection names, from 1, each once and in the order of the selection. They may exceed the
 * document's.
 * @param selection in the form of `PAGE_SELECTION`; null for all pages.
 * @param count of the document's pages.
 */
export function* pagesIn(selection: string | null, count: number): Generator<number, void, void> {
  const named = new Set<number>()
  for (const range of (selection ?? '1-').split(',')) {
    const [first, last] = range.split('-').map((text) => text.trim()) as [string, string?]
    const from = Number(first)
    const to = last === undefined ? from : last === '' ? Math.max(from, count) : Number(last)
    for (let page = from; page <= to; page++) {
      if (named.has(page)) continue
      named.add(page)
      yield page
    }
  }
}
