/** A Markdown table whose first column is aligned left and the others right. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, headings.map((_, index) => (index === 0 ? '---' : '---:')), ...rows]
  return `${lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n`
}
