import {
  audioLimits,
  encoders,
  type FamilyImageLimits,
  type FamilyMarks,
  familyMarks,
  familyOf,
  imageLimits,
} from '../families/gguf.ts'
import {
  FAMILIES,
  type Family,
  type FamilyName,
  TIMED_PAIRS,
  TOOL_MARKS,
  type ToolSyntaxName,
} from '../families/index.ts'
import { DIALECTS, type DialectName } from '../grounding/index.ts'
import { CardError } from './card-error.ts'
import { deriveContext } from './derived-context.ts'
import { deriveIdentity } from './derived-identity.ts'
import { deriveTemplate, type TemplateReading } from './derived-template.ts'
import { ModelHeaders } from './model-headers.ts'
import { Origins } from './origins.ts'
import { findTokens } from './vocabulary.ts'
import { type CardPlace, type WrittenCard, type WrittenServe, withExtensions } from './written-card.ts'

export interface CompletedCard {
  /** What `cardSchema` reads. */
  readonly card: Record<string, unknown>
  readonly origins: Origins
}

/** Shows the model the schema of its reply, where nobody has said how. */
const SCHEMA_PROMPT = 'Answer as JSON that satisfies this JSON schema:\n{schema}'
/** The contract's largest reply and sound, in tokens. */
const MOST_OUTPUT = 8192
const MOST_AUDIO = 8192
/** The share of the context that one picture may take, and one video or sound. */
const PICTURE_SHARE = 1 / 2
const FILM_SHARE = 3 / 4

/**
 * Adds what a card leaves out: what its family says, what the headers of its files say, and what its chat template shows.
 * Each is read only for a field that needs it, so the files of a complete card are not looked at.
 * @throws CardError
 */
export async function completeCard(written: WrittenCard, place: CardPlace): Promise<CompletedCard> {
  return new Completion(withExtensions(written, place), place).complete()
}

class Completion {
  readonly #card: WrittenCard
  readonly #place: CardPlace
  readonly #serves: readonly WrittenServe[]
  readonly #headers: ModelHeaders
  readonly #origins = new Origins()

  constructor(card: WrittenCard, place: CardPlace) {
    this.#card = card
    this.#place = place
    this.#serves = card.serves ?? [{}]
    this.#headers = new ModelHeaders(card.engine, place)
  }

  async complete(): Promise<CompletedCard> {
    const card = this.#card
    const identity = await deriveIdentity({
      card,
      serves: this.#serves,
      language: () => this.#headers.language(),
      place: this.#place,
      origins: this.#origins,
    })
    const context = await this.#context()
    const family = await this.#family()
    const knowledge: Family | null = family === null ? null : FAMILIES[family]
    const reading = this.#leavesOpen('capabilities', 'reasoning') ? await this.#template() : null
    const media = await this.#media(knowledge, family, context.contextTokens)
    const toolSyntax = this.#toolSyntax(knowledge, reading)
    const thought = this.#thought(knowledge, reading)
    const dialect = card.dialect === undefined ? (knowledge?.dialect ?? null) : card.dialect
    if (card.dialect === undefined) this.#origins.note('dialect', dialect, family === null ? 'default' : named(family))
    const serves = identity.serves.map((served, index) =>
      this.#served(served, index, { context, media, toolSyntax, thought, dialect }),
    )
    const completed = {
      ...card,
      ...identity,
      serves,
      family,
      engine: {
        ...card.engine,
        ...(await this.#printedTokens(knowledge, reading, toolSyntax, thought)),
        ...(reading?.builtIn === undefined ? {} : { chatTemplate: reading.builtIn }),
        ...context.engine,
      },
      image: media.image,
      video: media.video,
      audio: media.audio,
      dialect,
      toolSyntax,
      thought,
      schemaPrompt: this.#schemaPrompt(),
    }
    return { card: completed, origins: this.#origins }
  }

  /** Whether an id leaves out one of these fields. */
  #leavesOpen(...fields: readonly (keyof WrittenServe & string)[]): boolean {
    return this.#serves.some((served) => fields.some((field) => served[field] === undefined))
  }

  /** Whether the card itself promises something under one of its ids. */
  #promises(field: 'capabilities' | 'modalities', what: string): boolean {
    return this.#serves.some((served) => served[field]?.includes(what))
  }

  #warn(field: string, message: string): void {
    this.#place.warn(new CardError(this.#place.file, field, message).message)
  }

  /** The family that the card names, or that its files show. A card that says everything itself has none. */
  async #family(): Promise<FamilyName | null> {
    const { family, dialect } = this.#card
    if (family !== undefined) return family
    const isOpen = this.#leavesOpen('capabilities', 'modalities', 'outputFormats', 'reasoning')
    if (!isOpen && dialect !== undefined) return null
    const encoder = await this.#headers.encoder()
    const marks = familyMarks({ language: await this.#headers.language(), encoder })
    const found = familyOf(marks)
    if (found !== null) return this.#origins.note('family', found, originOf(marks, FAMILIES[found]))
    const seen = marks.projector === null ? 'no image projector' : `the image projector '${marks.projector}'`
    const architecture = `the architecture '${marks.architecture ?? 'unknown'}'`
    const sees = this.#promises('modalities', 'image') || this.#promises('modalities', 'video')
    const grounds = this.#serves.some((served) => served.outputFormats?.some((format) => format !== 'text'))
    if (dialect === undefined && (sees || grounds)) {
      throw new CardError(
        this.#place.file,
        'dialect',
        `is needed, because the model's files, with ${seen} and ${architecture}, are of no known family; or name one in 'family'`,
      )
    }
    const isComplete = this.#card.image !== undefined || this.#card.audio !== undefined
    if (encoder !== null && !isComplete) {
      this.#warn(
        'engine.projector',
        `${seen} with ${architecture} is of no known family: the model is served text only`,
      )
    }
    return this.#origins.note('family', null, 'default')
  }

  async #template(): Promise<TemplateReading> {
    const { chatTemplate } = this.#card.engine
    const reading = await deriveTemplate(chatTemplate, await this.#headers.language(), this.#place)
    for (const warning of reading.warnings) this.#warn('engine.chatTemplate', warning)
    if (reading.builtIn !== undefined && chatTemplate === undefined)
      this.#origins.note('engine.chatTemplate', reading.builtIn, reading.origin)
    return reading
  }

  /** Cells, and what ids may use of them. */
  async #context() {
    const { engine } = this.#card
    const isGiven = engine.contextTokens !== undefined
    if (isGiven && !this.#leavesOpen('maxContextTokens')) {
      return { engine: {}, contextTokens: engine.contextTokens!, origin: 'engine.contextTokens' }
    }
    const language = await this.#headers.language()
    const derived = await deriveContext(this.#card, language, this.#place)
    const trained = language.get(`${language.get('general.architecture')}.context_length`)
    const contextTokens = isGiven
      ? Math.min(engine.contextTokens!, typeof trained === 'number' ? trained : Number.POSITIVE_INFINITY)
      : derived.contextTokens
    if (isGiven) return { engine: {}, contextTokens, origin: 'engine.contextTokens' }
    this.#origins.note('engine.contextTokens', contextTokens, derived.origin)
    const { maxSequences } = engine
    if (maxSequences === undefined)
      this.#origins.note('engine.maxSequences', derived.maxSequences, derived.sequencesOrigin)
    return {
      engine: { contextTokens, maxSequences: maxSequences ?? derived.maxSequences },
      contextTokens,
      origin: 'engine.contextTokens',
    }
  }

  /** Limits of what the model is shown, for what its ids promise and for what they leave open. */
  async #media(family: Family | null, name: FamilyName | null, contextTokens: number): Promise<MediaLimits> {
    const card = this.#card
    const isOpen = this.#leavesOpen('modalities')
    const has = isOpen ? encoders(await this.#headers.encoder()) : { image: false, audio: false }
    const seesImages = this.#promises('modalities', 'image') || this.#promises('modalities', 'video') || has.image
    const image = await this.#image(family, name, seesImages, contextTokens)
    if (has.image && name !== null && !isComplete(image, IMAGE_FIELDS)) {
      const { projector } = familyMarks({ language: new Map(), encoder: await this.#headers.encoder() })
      this.#warn(
        'engine.projector',
        `how images of ${FAMILIES[name].title} ('${projector}') are sized is not known here: the model is served without them`,
      )
    }
    const showsVideo = this.#promises('modalities', 'video') || (has.image && isComplete(image, IMAGE_FIELDS))
    const video = this.#video(family, name, { image, showsVideo, isOpen, contextTokens })
    const audio = isOpen && has.audio ? await this.#audio(contextTokens) : card.audio
    return {
      image: isComplete(image, IMAGE_FIELDS) || card.image !== undefined || !isOpen ? image : undefined,
      video,
      audio,
      // An encoder that is there and whose limits are known is served.
      derived: [
        'text',
        ...(has.image && isComplete(image, IMAGE_FIELDS) ? ['image'] : []),
        ...(has.image && isComplete(video, VIDEO_FIELDS) ? ['video'] : []),
        ...(has.audio && audio !== undefined ? ['audio'] : []),
      ],
    }
  }

  /** Limits of images, where the card serves such or gives some of its own. */
  async #image(
    family: Family | null,
    name: FamilyName | null,
    served: boolean,
    contextTokens: number,
  ): Promise<unknown> {
    const { image } = this.#card
    const rule = family?.image ?? null
    if (rule === null || name === null || (image === undefined && !served)) return image
    const given = isObject(image) ? image : {}
    const encoder = isComplete(given, IMAGE_FIELDS) ? null : await this.#headers.encoder()
    const known = imageLimits(rule, encoder)
    const isOpen = this.#leavesOpen('modalities')
    const limits = isOpen ? fitting(known, Math.floor(contextTokens * PICTURE_SHARE)) : known
    for (const [field, keys] of Object.entries(IMAGE_KEYS)) {
      if (field in given || !(field in limits)) continue
      const read = keys.filter((key) => encoder?.has(key))
      this.#origins.note(`image.${field}`, true, read.length > 0 ? read.join(', ') : named(name))
    }
    return merged(limits, image, true)
  }

  #video(
    family: Family | null,
    name: FamilyName | null,
    { image, showsVideo, isOpen, contextTokens }: VideoContext,
  ): unknown {
    const { video: given } = this.#card
    // Video was shown in this way to all models before there were families.
    if (name === null) return merged({ layout: TIMED_PAIRS }, given, false)
    const rule = family?.video ?? null
    // One encoder takes images and frames, so a token covers as much of either.
    const side = isObject(image) && image.pixelsPerToken !== undefined ? { pixelsPerToken: image.pixelsPerToken } : {}
    const video = merged(rule === null ? null : { ...side, ...rule }, given, showsVideo)
    if (isOpen && given === undefined && !isComplete(video, VIDEO_FIELDS)) return undefined
    this.#origins.note('video', video, named(name))
    for (const field of isObject(given) ? Object.keys(given) : []) this.#origins.note(`video.${field}`, true, 'card')
    return isOpen && isObject(video) && !isObject(given) ? shortened(video, contextTokens * FILM_SHARE) : video
  }

  async #audio(contextTokens: number): Promise<unknown> {
    const { audio } = this.#card
    if (audio !== undefined) return audio
    const encoder = (await this.#headers.encoder())!
    const rule = audioLimits(encoder)
    if (rule === null) {
      this.#warn('engine.projector', 'the audio encoder is of no known kind: the model is served without sound')
      return undefined
    }
    const maxTokens = Math.min(MOST_AUDIO, Math.floor(contextTokens * FILM_SHARE))
    return this.#origins.note('audio', { ...rule, maxTokens }, 'the audio projector')
  }

  #toolSyntax(family: Family | null, reading: TemplateReading | null): unknown {
    const { toolSyntax } = this.#card
    if (toolSyntax !== undefined) return toolSyntax
    if (this.#leavesOpen('capabilities') && reading?.toolSyntax)
      return this.#origins.note('toolSyntax', reading.toolSyntax, PROBE)
    // A model that promises no tools may have a template that shows it none, which the focus tool would need.
    if (!this.#promises('capabilities', 'tool_calling')) return undefined
    return this.#origins.note('toolSyntax', family?.toolSyntax ?? undefined, 'family')
  }

  #thought(family: Family | null, reading: TemplateReading | null): unknown {
    const { thought } = this.#card
    if (!this.#leavesOpen('reasoning') || reading === null) {
      if (family?.thought && thought === undefined) this.#origins.note('thought', true, 'family')
      return merged(family?.thought ?? null, thought, true)
    }
    const own = family?.thinksUnshown ? family.thought : null
    const found =
      reading.thought === null ? own : { exemplars: family?.thought?.exemplars ?? false, ...reading.thought }
    if (found !== null && thought === undefined) this.#origins.note('thought', true, found === own ? 'family' : PROBE)
    return merged(found, thought, true)
  }

  /** Marks of calls and thoughts that the engine would leave out of the model's text. */
  async #printedTokens(
    family: Family | null,
    reading: TemplateReading | null,
    toolSyntax: unknown,
    thought: unknown,
  ): Promise<{ printedTokens?: readonly string[] }> {
    if (this.#card.engine.printedTokens !== undefined) return {}
    const calls = this.#promises('capabilities', 'tool_calling')
    const known = calls ? (family?.printedTokens ?? []) : []
    if (reading === null) return known.length > 0 ? { printedTokens: known } : {}
    const marks = typeof toolSyntax === 'string' ? (TOOL_MARKS[toolSyntax as ToolSyntaxName] ?? []) : []
    const ends = isObject(thought) ? [String(thought.end), String(thought.begin).trim()] : []
    const found = findTokens(await this.#headers.language(), [...marks, ...ends])
    const controls = [...found].filter(([, { control }]) => control).map(([token]) => token)
    const printedTokens = [...new Set([...known, ...controls])]
    if (printedTokens.length === 0) return {}
    this.#origins.note('engine.printedTokens', printedTokens, 'tokenizer.ggml.token_type')
    return { printedTokens }
  }

  #schemaPrompt(): unknown {
    const { schemaPrompt } = this.#card
    if (schemaPrompt !== undefined) return schemaPrompt ?? undefined
    if (!this.#leavesOpen('capabilities')) return undefined
    return this.#origins.note('schemaPrompt', SCHEMA_PROMPT, 'default')
  }

  #served(served: WrittenServe, index: number, about: ServedFrom): Record<string, unknown> {
    const { context, media, toolSyntax, thought, dialect } = about
    const add = <Value>(field: string, value: Value, origin: string) =>
      served[field] === undefined ? this.#origins.note(`serves[${index}].${field}`, value, origin) : served[field]
    const modalities = add('modalities', media.derived, 'the encoders') as readonly string[]
    const maxContextTokens = add('maxContextTokens', context.contextTokens, context.origin)
    return {
      ...served,
      modalities,
      capabilities: add(
        'capabilities',
        ['response_format_json_schema', 'regex', ...(toolSyntax === undefined ? [] : ['tool_calling'])],
        toolSyntax === undefined ? 'default' : 'default, toolSyntax',
      ),
      outputFormats: add('outputFormats', formats(dialect, modalities), dialect === null ? 'default' : 'dialect'),
      reasoning: add('reasoning', thought !== undefined, 'thought'),
      maxContextTokens,
      maxOutputTokens: add('maxOutputTokens', Math.min(MOST_OUTPUT, maxContextTokens as number), 'default'),
    }
  }
}

interface MediaLimits {
  readonly image: unknown
  readonly video: unknown
  readonly audio: unknown
  /** The modalities of an id that names none. */
  readonly derived: readonly string[]
}

interface VideoContext {
  readonly image: unknown
  readonly showsVideo: boolean
  readonly isOpen: boolean
  readonly contextTokens: number
}

interface ServedFrom {
  readonly context: { readonly contextTokens: number; readonly origin: string }
  readonly media: MediaLimits
  readonly toolSyntax: unknown
  readonly thought: unknown
  readonly dialect: unknown
}

const PROBE = 'the chat template'
const IMAGE_FIELDS = ['pixelsPerToken', 'minTokens', 'maxTokens']
const VIDEO_FIELDS = [...IMAGE_FIELDS, 'framesPerSecond', 'maxFrames', 'layout']
/** What `imageLimits` reads for each limit. */
const IMAGE_KEYS: Readonly<Record<string, readonly string[]>> = {
  pixelsPerToken: ['patch_size', 'spatial_merge_size', 'projector.scale_factor'].map((key) => `clip.vision.${key}`),
  minTokens: ['clip.vision.image_min_pixels'],
  maxTokens: ['clip.vision.image_max_pixels'],
  square: [],
}

function originOf({ projector }: FamilyMarks, { key }: Family): string {
  if (key !== undefined) return key
  return projector === null ? 'general.architecture' : 'clip.projector_type, general.architecture'
}

function named(family: FamilyName): string {
  return `family ${family}`
}

/** A family's notation is offered for what it can be about. */
function formats(dialect: unknown, modalities: readonly string[]): readonly string[] {
  if (typeof dialect !== 'string' || !(dialect in DIALECTS) || !modalities.includes('image')) return ['text']
  const offered = DIALECTS[dialect as DialectName].formats
  return ['text', ...offered.filter((format) => format !== 'clip' || modalities.includes('video'))]
}

/** No picture may fill the context; one that always has the same size cannot be made smaller. */
function fitting(limits: FamilyImageLimits, most: number): FamilyImageLimits {
  const { minTokens, maxTokens, square } = limits
  if (square || minTokens === undefined || maxTokens === undefined || maxTokens <= most) return limits
  return { ...limits, maxTokens: Math.max(minTokens, most) }
}

/** As many frames of a video as fit. */
function shortened(video: Readonly<Record<string, unknown>>, most: number): unknown {
  const { maxTokens, maxFrames, layout } = video as {
    maxTokens: number
    maxFrames: number
    layout: { framesPerGrid: number }
  }
  const fits = Math.max(2, Math.floor(most / maxTokens) * layout.framesPerGrid)
  return { ...video, maxFrames: Math.min(maxFrames, fits) }
}

function isComplete(limits: unknown, fields: readonly string[]): boolean {
  return isObject(limits) && fields.every((field) => limits[field] !== undefined)
}

/** A field of the card wins. @param wanted whether the family's fields count where the card gives none. */
function merged(defaults: object | null, given: unknown, wanted: boolean): unknown {
  if (given === undefined) return wanted ? (defaults ?? undefined) : undefined
  return isObject(given) ? { ...defaults, ...given } : given
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
