import { resolve } from 'node:path'
import { z } from 'zod'
import { familyMarks, familyOf, type GgufMetadata, imageLimits } from '../families/gguf.ts'
import { FAMILIES, FAMILY_NAMES, type Family, type FamilyName, TIMED_PAIRS } from '../families/index.ts'
import { CardError } from './card-error.ts'
import { readGgufMetadata } from './gguf.ts'

/** What must be known of a card before its family can complete it. Everything else is checked behind that. */
export const writtenSchema = z.looseObject({
  family: z.enum(FAMILY_NAMES).optional(),
  /** What `extensions` was called before. */
  ownModel: z.boolean().optional(),
  serves: z.array(z.looseObject({ capabilities: z.array(z.unknown()), modalities: z.array(z.unknown()) })),
  engine: z.looseObject({ model: z.string().min(1), projector: z.string().min(1).optional() }),
})
export type WrittenCard = z.infer<typeof writtenSchema>

/** Where a card is, and where its deprecation warnings go. */
export interface CardPlace {
  readonly file: string
  readonly directory: string
  /** @param message one line that names the card and the field. */
  warn(message: string): void
}

/**
 * Adds what the card leaves out and its family says. The family is the one that the card names; without one, a card that
 * gives a `dialect` says everything itself, and for any other the model's files decide.
 * @throws CardError when the files are of no known family, or cannot be read.
 */
export async function completeCard(written: WrittenCard, place: CardPlace): Promise<Record<string, unknown>> {
  const card = withExtensions(written, place)
  const files = new CardFiles(card, place)
  const name = card.family ?? (card.dialect === undefined ? await recognise(files, place) : null)
  if (name === null) {
    // Video was shown in this way to all models before there were families.
    return { ...card, family: null, video: merged({ layout: TIMED_PAIRS }, card.video, false) }
  }
  const family: Family = FAMILIES[name]
  const promises = (of: 'capabilities' | 'modalities', what: string) => card.serves.some((id) => id[of].includes(what))
  const calls = promises('capabilities', 'tool_calling')
  const image = await imageOf(family, card, files, promises('modalities', 'image') || promises('modalities', 'video'))
  return {
    ...card,
    family: name,
    engine: { ...(calls && family.printedTokens ? { printedTokens: family.printedTokens } : {}), ...card.engine },
    image,
    video: merged(videoOf(family, image), card.video, promises('modalities', 'video')),
    dialect: card.dialect === undefined ? family.dialect : card.dialect,
    // A model that promises no tools may have a template that shows it none, which the focus tool would need.
    toolSyntax: card.toolSyntax ?? (calls ? (family.toolSyntax ?? undefined) : undefined),
    thought: merged(family.thought, card.thought, true),
  }
}

function withExtensions({ ownModel, ...card }: WrittenCard, { file, warn }: CardPlace): WrittenCard {
  if (ownModel === undefined) return card
  if (card.extensions !== undefined) {
    throw new CardError(file, 'ownModel', "is the old name of 'extensions', which the card has as well: remove it")
  }
  warn(new CardError(file, 'ownModel', "is now called 'extensions'; rename it, its meaning is the same").message)
  return { ...card, extensions: ownModel }
}

async function recognise(files: CardFiles, { file }: CardPlace): Promise<FamilyName> {
  const marks = familyMarks({ language: await files.language(), encoder: await files.encoder() })
  const family = familyOf(marks)
  if (family !== null) return family
  const { projector, architecture } = marks
  const seen = projector === null ? 'no image projector' : `the image projector '${projector}'`
  throw new CardError(
    file,
    'dialect',
    `is needed, because the model's files, with ${seen} and the architecture '${architecture ?? 'unknown'}', are of no ` +
      "known family; or name one in 'family'",
  )
}

/** Limits of images, where the card serves such or gives some of its own. */
async function imageOf(
  { image: rule }: Family,
  { image }: WrittenCard,
  files: CardFiles,
  served: boolean,
): Promise<unknown> {
  if (rule === null || (image === undefined && !served)) return image
  const given = isObject(image) ? image : {}
  const isComplete = ['pixelsPerToken', 'minTokens', 'maxTokens'].every((field) => field in given)
  return merged(imageLimits(rule, isComplete ? null : await files.encoder()), image, true)
}

/** One encoder takes images and frames, so a token covers as much of either. */
function videoOf({ video }: Family, image: unknown): object | null {
  if (video === null || !isObject(image) || image.pixelsPerToken === undefined) return video
  return { pixelsPerToken: image.pixelsPerToken, ...video }
}

/** A field of the card wins. @param wanted whether the family's fields count where the card gives none. */
function merged(defaults: object | null, given: unknown, wanted: boolean): unknown {
  if (given === undefined) return wanted ? (defaults ?? undefined) : undefined
  return isObject(given) ? { ...defaults, ...given } : given
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

/** Headers of the files that a card names. */
class CardFiles {
  readonly #card: WrittenCard
  readonly #place: CardPlace

  constructor(card: WrittenCard, place: CardPlace) {
    this.#card = card
    this.#place = place
  }

  language(): Promise<GgufMetadata> {
    return this.#read('model', this.#card.engine.model)
  }

  async encoder(): Promise<GgufMetadata | null> {
    const { projector } = this.#card.engine
    return projector === undefined ? null : this.#read('projector', projector)
  }

  async #read(field: string, name: string): Promise<GgufMetadata> {
    const path = resolve(this.#place.directory, name)
    return readGgufMetadata(path).catch((error: NodeJS.ErrnoException) => {
      const message =
        error.code === 'ENOENT' ? `the file ${path} does not exist` : `cannot read ${path}: ${error.message}`
      throw new CardError(this.#place.file, `engine.${field}`, message, { cause: error })
    })
  }
}
