import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { CardError } from './card-error.ts'
import { cardSchema, type servedIdSchema } from './card-schema.ts'
import { completeCard, writtenSchema } from './complete-card.ts'

export { CardError } from './card-error.ts'
export { findCards } from './find-cards.ts'

export type ServedId = z.infer<typeof servedIdSchema>
/**
 * A model card (`card.json`) says everything the server must know about a model that its weights do not say: under which
 * ids it is served, what those ids may do, where the files are, and how images are prepared for it. What the card leaves
 * out is what the model's family says.
 */
export type ModelCard = z.infer<typeof cardSchema> & {
  /** Absolute path of the card itself. */
  readonly file: string
  /** Folder that the card's file names are relative to. */
  readonly directory: string
}
export type ImageLimits = NonNullable<ModelCard['image']>
export type VideoLimits = Omit<NonNullable<ModelCard['video']>, 'layout'>
export type AudioLimits = NonNullable<ModelCard['audio']>

/**
 * Reads and checks a card. The files that it names are looked at only where the card leaves the family, or the numbers of
 * its images, to them.
 * @param warn is told, in one line, of each thing in the card that still works and should be changed.
 * @param defaults of fields that the card leaves out.
 * @throws CardError
 */
export async function loadCard(
  file: string,
  warn: (message: string) => void = () => {},
  defaults: Partial<Pick<ModelCard, 'load'>> = {},
): Promise<ModelCard> {
  const path = resolve(file)
  const place = { file: path, directory: dirname(path) }
  const refuse: (field: string, message: string, cause: unknown) => never = (field, message, cause) => {
    throw new CardError(path, field, message, { cause })
  }
  const text = await readFile(path, 'utf8').catch((error: Error) => refuse('', error.message, error))
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    refuse('', `not valid JSON: ${(error as Error).message}`, error)
  }
  const parse = <Output>(schema: z.ZodType<Output>, value: unknown): Output => {
    const parsed = schema.safeParse(value)
    if (parsed.success) return parsed.data
    const issue = parsed.error.issues[0]!
    return refuse(z.core.toDotPath(issue.path), issue.message.replace(/^Invalid input: /, ''), parsed.error)
  }
  const completed = await completeCard(parse(writtenSchema, json), { ...place, warn })
  return { ...parse(cardSchema, { ...defaults, ...completed }), ...place }
}
