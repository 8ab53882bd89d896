/** An answer of `POST /v1/decisions`. */
export type AnswerBody =
  | { readonly type: 'predicate'; readonly probability: number; readonly x_label_mass: number }
  | (Read & {
      readonly type: 'choice'
      readonly probabilities: readonly { readonly value: string | boolean; readonly probability: number }[]
    })
  | (Read & {
      readonly type: 'score'
      readonly score: number
      readonly probabilities: readonly { readonly label: string; readonly probability: number }[]
    })
  | (Read & {
      readonly type: 'x_count'
      readonly probabilities: readonly { readonly value: number; readonly probability: number }[]
    })
  | (Found & { readonly type: 'x_box'; readonly box: Edges | null })
  | (Found & { readonly type: 'x_point'; readonly point: { readonly x: number; readonly y: number } | null })
  | (Found & {
      readonly type: 'x_clip'
      readonly clip: { readonly start_seconds: number; readonly end_seconds: number } | null
    })
  | { readonly type: 'refusal' }

interface Read {
  readonly confidence: number
  readonly x_label_mass: number
}

interface Found {
  readonly confidence: number | null
}

type Edges = Readonly<Record<'top' | 'bottom' | 'left' | 'right', number>>

export interface DecisionBody {
  readonly answers: readonly AnswerBody[]
  readonly usage: {
    readonly input_tokens: number
    readonly input_tokens_details: { readonly cached_tokens: number }
    readonly output_tokens: number
  }
}
