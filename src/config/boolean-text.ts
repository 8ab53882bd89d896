const TRUE = ['true', '1', 'yes', 'on', 't', 'y']
const FALSE = ['false', '0', 'no', 'off', 'f', 'n']

/** Reads a boolean from text: from queries and the environment. Python's clients write `True`. */
export function booleanOf(text: string): boolean | null {
  const word = text.toLowerCase()
  return TRUE.includes(word) ? true : FALSE.includes(word) ? false : null
}
