import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { CardError } from './card-error.ts'
import { cardSchema, type servedIdSchema } from './card-schema.ts'
import { completeCard } from './derive/complete-card.ts'
import type { Origins } from './origins.ts'
import { readPlain } from './read/plain-file.ts'
import { runsOnServers, type ServerEngine } from './server-engines.ts'
import { cardOfWeights, isWeights } from './weights-card.ts'
import { writtenSchema } from './written-card.ts'

export { CardError } from './card-error.ts'
export { findCards } from './find-cards.ts'
export type { ConstraintMode } from './text-card.ts'
export { isWeights } from './weights-card.ts'

export type ServedId = z.infer<typeof servedIdSchema>
/**
 * A model card (`card.json`) says everything that the server must know about a model beyond its weights: under which
 * ids it is served, what those ids may do, where the files are, and how images are prepared for it. Omitted fields come
 * from the model's family, its files and its chat template.
 */
export type ModelCard = z.infer<typeof cardSchema> & {
  /** Absolute path of the card itself. */
  readonly file: string
  /** Folder that the card's file names are relative to. */
  readonly directory: string
}
type CardWith<Type> = Omit<ModelCard, 'engine'> & { readonly engine: Extract<ModelCard['engine'], { type: Type }> }
/** The card of a model that runs on this machine. */
export type LocalModelCard = CardWith<'local'>
/** The card of a model that servers of another engine run. */
export type RemoteModelCard = CardWith<ServerEngine>
/** The card of a model that OpenAI-compatible servers run. */
export type OpenAiModelCard = CardWith<'openai'>
export type ImageLimits = NonNullable<ModelCard['image']>
export type VideoLimits = Omit<NonNullable<ModelCard['video']>, 'layout'>
export type AudioLimits = NonNullable<ModelCard['audio']>

export type CardDefaults = Partial<Pick<ModelCard, 'load'>>

/** A card, completed and as written. */
export interface ReadCard {
  readonly card: ModelCard
  readonly written: Readonly<Record<string, unknown>>
  readonly origins: Origins
}

/**
 * Reads and checks a card. The files that it names are read only for fields that the card leaves out.
 * @param file a card, or a GGUF file of a language model, which is treated as a card with no other field.
 * @param warn gets one line about each problem that the card works with.
 * @param defaults for fields that the card leaves out.
 * @throws CardError
 */
export async function loadCard(
  file: string,
  warn: (message: string) => void = () => {},
  defaults: CardDefaults = {},
): Promise<ModelCard> {
  return (await readCard(file, warn, defaults)).card
}

export function isLocal({ engine }: ModelCard): boolean {
  return engine.type === 'local'
}

/** @throws CardError for the card of a model that runs elsewhere. */
export function localCard(card: ModelCard): LocalModelCard {
  const { engine } = card
  if (engine.type !== 'local') throw new CardError(card.file, 'engine.type', 'the model does not run on this machine')
  return { ...card, engine }
}

/** @throws CardError for the card of a model that runs in another way. */
export function remoteCard(card: ModelCard): RemoteModelCard {
  const { engine } = card
  if (!runsOnServers(engine)) throw new CardError(card.file, 'engine.type', 'the model runs in another way')
  return { ...card, engine }
}

/** @throws CardError for the card of a model that runs in another way. */
export function openAiCard(card: ModelCard): OpenAiModelCard {
  const { engine } = card
  if (engine.type !== 'openai') throw new CardError(card.file, 'engine.type', "expected 'openai'")
  return { ...card, engine }
}

/** Like `loadCard`, for a model that runs on this machine. */
export async function loadLocalCard(...args: Parameters<typeof loadCard>): Promise<LocalModelCard> {
  return localCard(await loadCard(...args))
}

/** Like `loadCard`, with the origin of each value. */
export async function readCard(
  file: string,
  warn: (message: string) => void = () => {},
  defaults: CardDefaults = {},
): Promise<ReadCard> {
  const path = resolve(file)
  const place = { file: path, directory: dirname(path) }
  const json = isWeights(path) ? await cardOfWeights(path) : await readJson(path)
  const parse = <Output>(schema: z.ZodType<Output>, value: unknown): Output => {
    const parsed = schema.safeParse(value)
    if (parsed.success) return parsed.data
    const issue = parsed.error.issues[0]!
    const message = issue.message.replace(/^Invalid input: /, '')
    throw new CardError(path, z.core.toDotPath(issue.path), message, { cause: parsed.error })
  }
  const written = parse(writtenSchema, json)
  const { card, origins } = await completeCard(written, { ...place, warn })
  return { card: { ...parse(cardSchema, { ...defaults, ...card }), ...place }, written, origins }
}

async function readJson(path: string): Promise<unknown> {
  const refuse = (error: Error, message: string): never => {
    throw new CardError(path, '', message, { cause: error, told: 'the card cannot be read' })
  }
  const text = await readPlain(path).catch((error: Error) => refuse(error, error.message))
  try {
    return JSON.parse(text)
  } catch (error) {
    return refuse(error as Error, `not valid JSON: ${(error as Error).message}`)
  }
}
