/**
 * Finds a tool name that is reserved or a duplicate. Names are compared as existing clients compare them: by the
 * recipient that a call to the tool would have.
 * @returns the first tool at fault; null when there is none.
 */
export function toolNameIssue(names: readonly string[]): { index: number; message: string; code: string } | null {
  const seen = new Set<string>()
  for (const [index, name] of names.entries()) {
    const recipient = recipientOf(name)
    if (recipient === RESERVED) {
      return { index, message: `the name '${name.slice(0, 100)}' is reserved`, code: 'reserved_tool_name' }
    }
    if (seen.has(recipient)) {
      const message = `another tool has the name '${name.slice(0, 100)}', or one that clients treat as the same`
      return { index, message, code: 'duplicate_tool_name' }
    }
    seen.add(recipient)
  }
  return null
}

const RESERVED = 'functions.parallel'

function recipientOf(name: string): string {
  const clean = withoutUnderscores(name.trim().replace(/[^\p{L}\p{N}_.-]+/gu, '_'))
  const whole = clean === '' ? 'tool' : clean
  return /^[^.]+\../.test(whole) ? whole : `functions.${whole}`
}

/** Removes underscores around a name. A regular expression would take quadratic time here. */
function withoutUnderscores(name: string): string {
  let [start, end] = [0, name.length]
  while (name[start] === '_') start++
  while (end > start && name[end - 1] === '_') end--
  return name.slice(start, end)
}
