/** A piece of a reply as it comes. Texts are never empty. */
export type ReplyPiece =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  /** A call begins. `index` counts the calls of the reply. */
  | { readonly type: 'tool_call'; readonly index: number; readonly id: string; readonly name: string }
  /** To be appended to the arguments of the call. */
  | { readonly type: 'tool_arguments'; readonly index: number; readonly text: string }

/** A stage between the text of a model and the pieces of its reply. The result does not depend on how the text is cut. */
export interface TextStage {
  push(text: string): ReplyPiece[]
  /**
   * What was held back. Nothing is pushed behind it.
   * @param cut whether the text was ended before its end.
   */
  end(cut: boolean): ReplyPiece[]
}
