/** A token of the library's lexer. */
interface Token {
  readonly type: string
  readonly value: string
}

const OPENS: Readonly<Record<string, string>> = {
  OpenParen: 'CloseParen',
  OpenSquareBracket: 'CloseSquareBracket',
  OpenCurlyBracket: 'CloseCurlyBracket',
}
const LITERALS = new Set(['StringLiteral', 'NumericLiteral'])
/** Words that end a test rather than begin its argument. */
const WORDS = new Set(['and', 'or', 'else', 'is', 'not', 'if', 'in'])

/**
 * The library's parser does not support tests with arguments: `x is divisibleby(2)`, `x is in ['a']`. They become
 * filters, which have the same precedence: `x | is divisibleby(2)`.
 */
export function withTestsAsFilters(tokens: readonly Token[]): Token[] {
  const result: Token[] = []
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    const isTest = token.type === 'Identifier' && token.value === 'is'
    const negates = isTest && tokens[at + 1]?.value === 'not'
    const name = at + (negates ? 2 : 1)
    const end = isTest ? endOfArgument(tokens, name + 1) : 0
    if (end <= name + 1) {
      result.push(token)
      continue
    }
    result.push({ type: 'Pipe', value: '|' })
    result.push({ type: 'Identifier', value: `is ${negates ? 'not ' : ''}${tokens[name]!.value}` })
    const isCall = tokens[name + 1]!.type === 'OpenParen'
    if (!isCall) result.push({ type: 'OpenParen', value: '(' })
    result.push(...withTestsAsFilters(tokens.slice(name + 1, end)))
    if (!isCall) result.push({ type: 'CloseParen', value: ')' })
    at = end - 1
  }
  return result
}

/** The index after the argument of a test; `from` if there is none. */
function endOfArgument(tokens: readonly Token[], from: number): number {
  const first = tokens[from]
  if (first === undefined) return from
  let at = from
  if (first.type in OPENS) at = endOfBrackets(tokens, from)
  else if (LITERALS.has(first.type) || (first.type === 'Identifier' && !WORDS.has(first.value))) at++
  if (at === from || first.type === 'OpenParen') return at
  while (tokens[at]?.type === 'Dot' || tokens[at]?.type === 'OpenSquareBracket') {
    at = tokens[at]!.type === 'Dot' ? at + 2 : endOfBrackets(tokens, at)
  }
  return at
}

function endOfBrackets(tokens: readonly Token[], from: number): number {
  let depth = 0
  for (let at = from; at < tokens.length; at++) {
    const { type } = tokens[at]!
    if (type in OPENS) depth++
    else if (Object.values(OPENS).includes(type) && --depth === 0) return at + 1
  }
  return tokens.length
}
