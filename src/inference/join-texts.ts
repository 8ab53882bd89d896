import type { EngineEvent } from './engine.ts'

/** Joins the texts of two events that follow each other; null unless both are texts of the same completion. */
export function joinTexts(last: EngineEvent, next: EngineEvent): EngineEvent | null {
  if (last.type !== 'text' || next.type !== 'text') return null
  if (last.branch !== next.branch || last.completion !== next.completion) return null
  const logProbs =
    last.logProbs === undefined && next.logProbs === undefined
      ? {}
      : { logProbs: [...(last.logProbs ?? []), ...(next.logProbs ?? [])] }
  return { ...last, text: last.text + next.text, tokens: last.tokens + next.tokens, ...logProbs }
}
