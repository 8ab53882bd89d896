import { z } from 'zod'
import { FAMILY_NAMES } from '../families/families.ts'
import { CardError } from './card-error.ts'
import { KV_TYPES } from './derive/kv-cost.ts'
import { POOLINGS } from './pooling.ts'
import type { CardFolder } from './read/weight-files.ts'
import { SERVER_ENGINE_TYPES } from './server-engines.ts'
import { CONSTRAINT_MODES } from './text-card.ts'

const engineFields = {
  model: z.string().min(1),
  chatTemplate: z.string().min(1).optional(),
  contextTokens: z.int().positive().optional(),
}

/** The fields of a card that completing it needs. All others are checked after that. */
export const writtenSchema = z.looseObject({
  family: z.enum(FAMILY_NAMES).optional(),
  embedding: z.looseObject({ pooling: z.enum(POOLINGS).optional() }).optional(),
  /** The former name of `extensions`. */
  ownModel: z.boolean().optional(),
  serves: z
    .array(
      z.looseObject({
        id: z.string().min(1).optional(),
        adapter: z.string().optional(),
        capabilities: z.array(z.unknown()).optional(),
        modalities: z.array(z.unknown()).optional(),
        outputFormats: z.array(z.unknown()).optional(),
        reasoning: z.boolean().optional(),
        maxContextTokens: z.int().positive().optional(),
      }),
    )
    .min(1)
    .optional(),
  engine: z.discriminatedUnion('type', [
    z.looseObject({
      ...engineFields,
      type: z.literal('local').optional(),
      projector: z.string().min(1).optional(),
      adapters: z.array(z.looseObject({ name: z.string() })).optional(),
      kvType: z.enum(KV_TYPES).optional(),
    }),
    z.looseObject({ ...engineFields, type: z.enum(SERVER_ENGINE_TYPES), tokenizer: z.string().min(1) }),
    z.looseObject({ ...engineFields, type: z.literal('openai'), constraints: z.enum(CONSTRAINT_MODES).optional() }),
  ]),
})
export type WrittenCard = z.infer<typeof writtenSchema>
export type WrittenServe = NonNullable<WrittenCard['serves']>[number]

/** Where a card is, with a function for warnings about it. */
export interface CardPlace extends CardFolder {
  /** @param message one line that names the card and the field. */
  warn(message: string): void
}

export function withExtensions({ ownModel, ...card }: WrittenCard, { file, warn }: CardPlace): WrittenCard {
  if (ownModel === undefined) return card
  if (card.extensions !== undefined) {
    throw new CardError(file, 'ownModel', "is the old name of 'extensions', which the card has as well: remove it")
  }
  warn(new CardError(file, 'ownModel', "is now called 'extensions'; rename it, its meaning is the same").message)
  return { ...card, extensions: ownModel }
}
