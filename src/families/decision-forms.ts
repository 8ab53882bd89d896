/** How a model is asked to decide, and the replies that count for each option. */
export interface DecisionForms {
  /** `names`: the model answers with the option itself. `letters`: options are listed, and it answers with a letter. */
  readonly labels: 'names' | 'letters'
  /** Whether a question ends with how to answer it. Without that, it is all that the model is asked. */
  readonly instructed: boolean
  /** Replies that mean yes and no; their probabilities are added. */
  readonly yes: readonly string[]
  readonly no: readonly string[]
  /**
   * Replies that mean an option, by its name or letter: `{name}` as it is, `{Name}` with a capital, `{a name}` and
   * `{A name}` with an article. Their probabilities are added.
   */
  readonly replies: readonly string[]
}

/**
 * For models that follow instructions. A letter is one token, so options of any length are as likely before the model
 * has seen the question.
 */
export const DECIDES_BY_LETTERS: DecisionForms = {
  labels: 'letters',
  instructed: true,
  yes: ['Yes', 'Yes.'],
  no: ['No', 'No.'],
  replies: ['{name}', '{name}.'],
}
