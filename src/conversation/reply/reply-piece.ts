import type { TokenLogProb } from '../../inference/engine.ts'

/** A piece of a streamed reply. Texts are never empty. */
export type ReplyPiece = PieceBody & {
  /** Of the tokens of the reply since the last piece that had some; absent where nobody asks for them. */
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
}
