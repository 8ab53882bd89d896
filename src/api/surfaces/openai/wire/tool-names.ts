import type { z } from 'zod'

type Context = z.core.$RefinementCtx<unknown>

/**
 * Rejects a list of tools in which a name is reserved or a duplicate. Names are compared as existing clients compare them:
 * by the recipient that a call to the tool would have.
 * @param names each with its place in the list.
 */
export function checkToolNames(names: readonly { name: string; path: (string | number)[] }[], context: Context): void {
  const seen = new Set<string>()
  for (const { name, path } of names) {
    const recipient = recipientOf(name)
    const isReserved = recipient === RESERVED
    if (isReserved || seen.has(recipient)) {
      const shown = name.slice(0, 100)
      const message = isReserved
        ? `the name '${shown}' is reserved`
        : `another tool has the name '${shown}', or one that clients treat as the same`
      const code = isReserved ? 'reserved_tool_name' : 'duplicate_tool_name'
      context.addIssue({ code: 'custom', path, message, params: { code } })
      return
    }
    seen.add(recipient)
  }
}

/** Checks the names of tools in the form of chat completions. */
export function checkFunctionNames(tools: readonly { readonly function: { name: string } }[], context: Context): void {
  checkToolNames(
    tools.map(({ function: { name } }, index) => ({ name, path: [index, 'function', 'name'] })),
    context,
  )
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
