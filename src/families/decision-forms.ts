import { z } from 'zod'

const replies = z.array(z.string().min(1)).min(1).max(8)
const replyForm = z.string().regex(/\{(?:a |A )?name\}|\{Name\}/, 'must contain {name}, {Name}, {a name} or {A name}')
const temperature = z.number().min(0.05).max(20)

/** How a model is asked to decide, and the replies that count for each option. */
export const decisionSchema = z.strictObject({
  /** `names`: the model answers with the option itself. `letters`: options are listed, and it answers with a letter. */
  labels: z.enum(['names', 'letters']),
  /** Whether a question ends with instructions for answering it. Otherwise the model is given only the question. */
  instructed: z.boolean(),
  /** Replies that mean yes and no; their probabilities are added. */
  yes: replies,
  no: replies,
  /**
   * Replies that mean an option, by its name or letter: `{name}` as it is, `{Name}` with a capital, `{a name}` and
   * `{A name}` with an article. Their probabilities are added.
   */
  replies: z.array(replyForm).min(1).max(8),
  /**
   * How the model is asked what is at a place on the 0..1000 grid. If absent, it is asked whether an answer of its own
   * that names the place is right.
   */
  places: z
    .strictObject({
      /** With `{left}`, `{top}`, `{right}` and `{bottom}`. */
      box: z.string(),
      /** With `{x}` and `{y}`. */
      point: z.string(),
      /** Its answers. If absent, `replies` of decisions. */
      replies: z.array(replyForm).min(1).max(8).optional(),
      /** Names with which the model never answers alone, and its answers that mean any thing of that kind. */
      kinds: z
        .array(z.strictObject({ names: z.array(z.string().min(1)).min(1), replies: z.array(replyForm).min(1).max(64) }))
        .default([]),
      /** Whether text after these answers does not matter, so that the replies are shorter. */
      goesOn: z.boolean().default(false),
    })
    .optional(),
  /** Divides log-probabilities before they become probabilities: above 1, the model is less certain. */
  temperature: z
    .strictObject({
      predicate: temperature.default(1),
      choice: temperature.default(1),
      score: temperature.default(1),
    })
    .default({ predicate: 1, choice: 1, score: 1 }),
})
export type DecisionForms = Omit<z.infer<typeof decisionSchema>, 'temperature'>

/**
 * For models that follow instructions. A letter is one token, so the length of an option does not influence its
 * probability.
 */
export const DECIDES_BY_LETTERS: DecisionForms = {
  labels: 'letters',
  instructed: true,
  yes: ['Yes', 'Yes.'],
  no: ['No', 'No.'],
  replies: ['{name}', '{name}.'],
}
