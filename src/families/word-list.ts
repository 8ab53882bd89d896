/** The words of a long list that is written as one text. */
export function wordList(text: string): readonly string[] {
  return text.trim().split(/\s+/)
}
