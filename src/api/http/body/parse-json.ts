import type { z } from 'zod'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import { isRecord } from '../../../lib/json/parse-json.ts'
import { rawItems, rawMember } from '../../../lib/json/raw-json.ts'
import { parseBody } from '../wire/parse.ts'
import { copyOf, reduceSeeds, restoreTexts } from './client-texts.ts'
import { type InlineBytes, mayHoldMedia, takeInlineMedia } from './inline-bytes.ts'
import { checkShape } from './json-shape.ts'

/** A body that its schema accepts. It can be sent between threads. */
export interface ParsedBody<Fields = unknown> {
  /** Output of the schema. The media listed in `inline` and the parameters of tools are empty here. */
  readonly value: Fields
  /**
   * The `parameters` or `input_schema` of each tool as the client wrote them; null for a tool without either. Tools in a
   * namespace come in its place.
   */
  readonly rawParameters: readonly (string | null)[]
  readonly inline: readonly InlineBytes[]
}

/**
 * Parses and validates a request body. The time is proportional to its length for any content.
 * @param takesInline whether to decode the media in the body.
 * @throws ApiError 400 naming the parameter at fault.
 */
export function parseJson<Fields>(bytes: Buffer, schema: z.ZodType<Fields>, takesInline: boolean): ParsedBody<Fields> {
  if (bytes.length === 0) throw invalidRequest('The request body is empty; a JSON object is expected', null)
  checkShape(bytes)
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
  const body = parsed(text)
  reduceSeeds(body, text)
  const value = parseBody(schema, withoutIdleChoice(body))
  restoreTexts(value as object, text)
  const tools = hasTools(value) ? (value.tools as readonly Declared[]) : []
  const rawParameters = rawParametersOf(tools, text)
  emptyParameters(tools)
  const inline = takesInline && mayHoldMedia(text) ? takeInlineMedia(value as object) : []
  return { value, rawParameters, inline }
}

/** `__proto__` is an ordinary key here and later: no code assigns by clients' keys (`client-json.ts`). */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw invalidRequest('The request body is not valid JSON', null, { cause })
  }
}

/** Drops `tool_choice` from a request without tools: the contract ignores any value of it there. */
function withoutIdleChoice(body: unknown): unknown {
  if (!isRecord(body) || !('tool_choice' in body) || hasTools(body)) return body
  const { tool_choice: _, ...rest } = body
  return rest
}

function hasTools(value: unknown): value is { readonly tools: readonly unknown[] } {
  return isRecord(value) && Array.isArray(value.tools) && value.tools.length > 0
}

/**
 * Reads the parameters of tools from the body's text. Parsing would lose details that the model must see: the order of
 * integer-like keys and the spelling of numbers. Only the places that the schema defines count, not other keys of that name.
 */
function rawParametersOf(tools: readonly Declared[], text: string): (string | null)[] {
  const texts = tools.length === 0 ? [] : rawItems(rawMember(text, 'tools')!)!
  return tools.flatMap((tool, index) => {
    if (tool.tools) return rawParametersOf(tool.tools, texts[index]!)
    const declared = tool.function ?? tool
    const key = declared.parameters ? 'parameters' : declared.input_schema ? 'input_schema' : null
    if (key === null) return null
    const raw = tool.function ? rawMember(texts[index]!, 'function')! : texts[index]!
    // A copy, because a slice would keep the whole body in memory.
    return copyOf(rawMember(raw, key)!)
  })
}

/** Parameters pass between threads as text: receiving an object with many keys takes longer than parsing it. */
function emptyParameters(tools: readonly Declared[]): void {
  for (const tool of tools) {
    emptyParameters(tool.tools ?? [])
    for (const declared of [tool, tool.function]) {
      if (declared?.parameters) declared.parameters = {}
      if (declared?.input_schema) declared.input_schema = {}
    }
  }
}

interface Declared {
  parameters?: object | null
  input_schema?: object
  readonly function?: Declared
  readonly tools?: readonly Declared[]
}
