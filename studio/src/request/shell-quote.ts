/** A word of a POSIX shell that means exactly this text, which must not contain NUL. */
export function shellQuote(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Text within a here-document whose end is not quoted, so that the shell changes nothing in it. */
export function hereQuote(text: string): string {
  return text.replaceAll(/[\\$`]/g, '\\$&')
}
