import type { TokenLogProb } from '../../inference/contract/generation.ts'

/** A piece of a streamed reply. Texts are never empty. */
export type ReplyPiece = PieceBody & {
  /** Log-probabilities of the reply's tokens since the last piece with any; absent unless the request asks for them. */
  readonly logProbs?: readonly TokenLogProb[]
}

type PieceBody =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  /** The start of a tool call. `index` counts the calls of the reply. */
  | { readonly type: 'tool_call'; readonly index: number; readonly id: string; readonly name: string }
  /** Text to append to the arguments of the call. */
  | { readonly type: 'tool_arguments'; readonly index: number; readonly text: string }

/**
 * A stage between a model's text and the pieces of its reply. The result does not depend on how the text is chunked.
 */
export interface TextStage {
  push(text: string): ReplyPiece[]
  /**
   * Returns what was held back. Nothing may be pushed afterwards.
   * @param cut whether the text was truncated.
   */
  end(cut: boolean): ReplyPiece[]
  /**
   * Whether the text so far ends in a thought; null if that depends on later text. Absent for stages without thoughts.
   */
  readonly isThinking?: boolean | null | undefined
}

/** Joins texts of the same kind that follow each other. */
export function joinPieces(pieces: readonly ReplyPiece[]): ReplyPiece[] {
  if (pieces.length < 2) return [...pieces]
  const groups: ReplyPiece[][] = []
  for (const piece of pieces) {
    const group = groups.at(-1)
    if (group !== undefined && isSameKind(group[0]!, piece)) group.push(piece)
    else groups.push([piece])
  }
  return groups.map((group) => {
    const logProbs = group.flatMap((piece) => piece.logProbs ?? [])
    const text = group.map((piece) => ('text' in piece ? piece.text : '')).join('')
    const [first] = group
    return group.length === 1 ? first! : { ...first!, text, ...(logProbs.length === 0 ? {} : { logProbs }) }
  })
}

function isSameKind(last: ReplyPiece, next: ReplyPiece): boolean {
  return (
    'text' in last &&
    last.type === next.type &&
    ('index' in last ? last.index : null) === ('index' in next ? next.index : null)
  )
}
