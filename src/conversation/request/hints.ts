import { type Hint, takeHints } from '../../grounding/hints.ts'
import type { Path } from '../../lib/param.ts'
import { type PlacedMessage, partsOf, type SystemMessage, type TextContent } from './message.ts'

export interface PlacedHint {
  readonly hint: Hint
  /** The parameter that contained it. */
  readonly param: Path
}

/**
 * Removes the format hints from system messages. In messages of other roles a hint is plain text. A system message that
 * contains only hints is removed.
 */
export function readHints(messages: readonly PlacedMessage[]): { hints: PlacedHint[]; messages: PlacedMessage[] } {
  const hints: PlacedHint[] = []
  const rest: PlacedMessage[] = []
  for (const placed of messages) {
    const { role } = placed.message
    if (role !== 'system' && role !== 'developer') {
      rest.push(placed)
      continue
    }
    const before = hints.length
    const content: TextContent[] = []
    for (const { part, param } of partsOf(placed)) {
      if (part.type !== 'text') continue
      const taken = takeHints(part.text)
      hints.push(...taken.hints.map((hint) => ({ hint, param })))
      content.push({ type: 'text', text: taken.rest })
    }
    const blank = content.every(({ text }) => text.trim() === '')
    if (blank && hints.length > before) continue
    rest.push({ message: { role, content } satisfies SystemMessage, param: placed.param })
  }
  return { hints, messages: rest }
}
