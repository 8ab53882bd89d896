import { compactJson, rawItems, rawMember, rawMembers } from '../../../lib/json/raw-json.ts'

/**
 * Restores JSON that its schema turned into text (`asText`) to the client's own spelling. Parsing loses the order of
 * integer-like keys and the digits of large numbers, and the model is shown both.
 */
export function restoreTexts(body: object, text: string): void {
  if (!MARKS.test(text)) return
  const root: Node = new Map()
  for (const place of textsIn(body as Fields)) add(root, place)
  if (root.size > 0) restore(root, text)
}

/** Every body with such JSON contains one of these, or an escape that may spell one. */
const MARKS = /tool_use|tool_calls|input_json|\\u00/

type Fields = Record<string | number, unknown>

interface Place {
  readonly holder: Fields
  readonly path: readonly [string | number, ...(string | number)[]]
}

/** A tree of places by their keys, so that each part of the text is read only once. */
type Node = Map<string | number, Node | Fields>

function add(root: Node, { holder, path }: Place): void {
  let node = root
  for (const key of path.slice(0, -1)) {
    const next = (node.get(key) as Node | undefined) ?? new Map()
    node.set(key, next)
    node = next
  }
  node.set(path.at(-1)!, holder)
}

function restore(node: Node, text: string): void {
  const items = rawItems(text)
  const parts = items === null ? rawMembers(text)!.map(({ key, value }) => [key, value] as const) : [...items.entries()]
  for (const [key, value] of parts) {
    const next = node.get(key)
    if (next instanceof Map) restore(next, value)
    // A client's string stays as it is. A copy, because a slice would keep the whole body in memory.
    else if (next !== undefined && !value.startsWith('"')) next[key] = copyOf(compactJson(value))
  }
}

export function copyOf(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le')
}

/** Yields the places of calls in Anthropic's and Ollama's messages, and of JSON in decisions. */
function* textsIn({ messages, input, questions }: Fields): Generator<Place> {
  for (const [at, message] of items(messages)) {
    for (const [part, block] of items(message.content)) {
      if (block.type === 'tool_use') yield { holder: block, path: ['messages', at, 'content', part, 'input'] }
    }
    for (const [index, call] of items(message.tool_calls)) {
      const path = ['messages', at, 'tool_calls', index, 'function', 'arguments'] as const
      yield { holder: call.function as Fields, path: [...path] }
    }
  }
  for (const [list, turns, key] of [
    ['input', input, 'content'],
    ['questions', questions, 'instructions'],
  ] as const) {
    for (const [at, turn] of items(turns)) {
      for (const [part, block] of items(turn[key])) {
        if (block.type === 'input_json') yield { holder: block, path: [list, at, key, part, 'data'] }
      }
    }
  }
}

function* items(list: unknown): Generator<[number, Fields]> {
  if (!Array.isArray(list)) return
  for (const [index, item] of list.entries()) {
    if (typeof item === 'object' && item !== null) yield [index, item as Fields]
  }
}

/**
 * Reduces large seeds to 32 bits by their digits. JavaScript would round them, and two close seeds would then give the same
 * replies.
 */
export function reduceSeeds(body: unknown, text: string): void {
  if (typeof body !== 'object' || body === null) return
  const { options } = body as Fields
  for (const key of SEEDS) if (isRounded(body, key)) reduce(body, key, rawMember(text, key)!)
  if (isRounded(options, 'seed')) reduce(options, 'seed', rawMember(rawMember(text, 'options')!, 'seed')!)
}

/** The name in OpenAI's API, and in Mistral's API. */
const SEEDS = ['seed', 'random_seed']

/** Clients draw seeds of up to 64 bits; longer numbers are invalid. */
const MOST_DIGITS = 40

function isRounded(holder: unknown, key: string): holder is Fields {
  const seed = ((holder ?? {}) as Fields)[key]
  return typeof seed === 'number' && Number.isInteger(seed) && !Number.isSafeInteger(seed)
}

function reduce(holder: Fields, key: string, digits: string): void {
  if (digits.length <= MOST_DIGITS && /^-?\d+$/.test(digits)) holder[key] = Number(BigInt.asUintN(32, BigInt(digits)))
}
