/** A line of CSV as RFC 4180 defines it. */
export function csvLine(cells: readonly string[]): string {
  const quoted = cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell))
  return `${quoted.join(',')}\r\n`
}
