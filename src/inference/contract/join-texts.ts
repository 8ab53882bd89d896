import type { EngineEvent, TextEvent } from './generation.ts'

/** Joins the texts of two consecutive events; null unless both are texts of the same completion. */
export function joinTexts(last: EngineEvent, next: EngineEvent): EngineEvent | null {
  if (last.type !== 'text' || next.type !== 'text') return null
  if (last.branch !== next.branch || last.completion !== next.completion) return null
  const logProbs =
    last.logProbs === undefined && next.logProbs === undefined
      ? {}
      : { logProbs: [...(last.logProbs ?? []), ...(next.logProbs ?? [])] }
  const ends = [...endsOf(last), ...endsOf(next).map((end) => last.text.length + end)]
  return { ...last, text: last.text + next.text, tokens: last.tokens + next.tokens, ends, ...logProbs }
}

function endsOf({ text, tokens, ends }: TextEvent): readonly number[] {
  return ends ?? Array<number>(tokens).fill(text.length)
}

/**
 * The same text token by token, as far as tokens can be separated, so that results do not depend on how many of them
 * arrived at once. Tokens that print nothing belong to the next text; at the end, their text is empty.
 */
export function* tokenTexts(event: TextEvent): Generator<TextEvent, void, void> {
  const { ends, ...rest } = event
  // A remote server may send fewer texts than tokens, and then does not report where each of them ends.
  const isTold = ends !== undefined && (rest.logProbs ?? ends).length === ends.length
  if (!isTold) return yield event
  let token = 0
  let at = 0
  for (const [index, end] of ends.entries()) {
    if (end === at && index < ends.length - 1) continue
    const logProbs = rest.logProbs === undefined ? {} : { logProbs: rest.logProbs.slice(token, index + 1) }
    yield { ...rest, text: rest.text.slice(at, end), tokens: index + 1 - token, ...logProbs }
    token = index + 1
    at = end
  }
}
