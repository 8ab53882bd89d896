import { z } from 'zod'

const replies = z.array(z.string().min(1)).min(1).max(8)
const temperature = z.number().min(0.05).max(20)

/** How a model is asked to decide; `families/decision-forms.ts` says what each field means. */
export const decisionSchema = z.strictObject({
  labels: z.enum(['names', 'letters']),
  instructed: z.boolean(),
  yes: replies,
  no: replies,
  replies: z
    .array(z.string().regex(/\{(?:a |A )?name\}|\{Name\}/, 'must contain {name}, {Name}, {a name} or {A name}'))
    .min(1)
    .max(8),
  /** Log-probabilities are divided by these before they become probabilities: above 1 the model claims less. */
  temperature: z
    .strictObject({
      predicate: temperature.default(1),
      choice: temperature.default(1),
      score: temperature.default(1),
    })
    .default({ predicate: 1, choice: 1, score: 1 }),
})
