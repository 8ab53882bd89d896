export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  process.stdout.write(toTable(head, rows))
}

/** Columns as wide as their contents. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]!.length)))
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ')
  return `${[head, ...rows].map((row) => line(row).trimEnd()).join('\n')}\n`
}

/** Width of lines of prose: that of the narrowest usual terminal. */
export const LINE_COLUMNS = 80

/** Breaks a text between words into lines of at most `columns` characters, unless a word is longer. */
export function wrap(text: string, columns: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!
    if (line !== '' && line.length + 1 + word.length > columns) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines
}

export function showMoment(time: Date | null): string {
  return time === null ? '-' : time.toISOString().slice(0, 16).replace('T', ' ')
}

/** A size in the largest unit in which it is at least 1. */
export function showBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const unit = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1)
  return `${(bytes / 2 ** (10 * unit)).toFixed(unit < 2 ? 0 : unit === 2 ? 1 : 2)} ${units[unit]}`
}

/** A JSON array, written item by item because it may be larger than memory, with one item on each line. */
export class JsonArray {
  #isEmpty = true

  write(items: readonly object[]): void {
    for (const item of items) {
      process.stdout.write(`${this.#isEmpty ? '[\n' : ',\n'}${JSON.stringify(item)}`)
      this.#isEmpty = false
    }
  }

  end(): void {
    process.stdout.write(this.#isEmpty ? '[]\n' : '\n]\n')
  }
}

/** An object as a line of JSON. */
export function printJsonLine(value: object): void {
  process.stdout.write(`${JSON.stringify(value)}\n`)
}

export function printJson(items: readonly object[]): void {
  const array = new JsonArray()
  array.write(items)
  array.end()
}
