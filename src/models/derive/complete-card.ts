import { DECIDES_BY_LETTERS } from '../../families/decision-forms.ts'
import { FAMILIES, type FamilyName } from '../../families/families.ts'
import { type Family, USUAL_THOUGHT } from '../../families/family.ts'
import { type FamilyMarks, familyMarks, familyOf } from '../../families/gguf.ts'
import { projectorProblem } from '../../families/llama-cpp-names.ts'
import { TOOL_MARKS, type ToolSyntaxName } from '../../families/tool-syntax.ts'
import type { Dialect } from '../../grounding/dialect.ts'
import { DIALECTS, type DialectName } from '../../grounding/dialects/dialects.ts'
import { CardError } from '../card-error.ts'
import { isObject, merged, named } from '../card-values.ts'
import { Origins } from '../origins.ts'
import { type ModelHeaders, modelHeaders } from '../read/model-headers.ts'
import { findTokens } from '../read/vocabulary.ts'
import { runsOnServers } from '../server-engines.ts'
import { ENFORCED, TEXT_THOUGHT, TEXT_TOOL_SYNTAX } from '../text-card.ts'
import { type CardPlace, type WrittenCard, type WrittenServe, withExtensions } from '../written-card.ts'
import { deriveContext } from './derived-context.ts'
import { withEmbedding } from './derived-embedding.ts'
import { deriveIdentity } from './derived-identity.ts'
import { deriveMedia, type MediaLimits } from './derived-media.ts'
import { deriveTemplate, type TemplateReading } from './derived-template.ts'
import { lackingEncoder } from './lacking-encoder.ts'

export interface CompletedCard {
  /** Input for `cardSchema`. */
  readonly card: Record<string, unknown>
  readonly origins: Origins
}

/** The default prompt that shows the model the schema of its reply. */
const SCHEMA_PROMPT = 'Answer as JSON that satisfies this JSON schema:\n{schema}'
/** In tokens. Programs that read documents ask for up to 15,000 for a page. */
const MOST_OUTPUT = 16_384
/** The same for an OpenAI-compatible server, which may refuse more. */
const MOST_OUTPUT_ELSEWHERE = 8192

/**
 * Adds the fields that a card leaves out, from its family, the headers of its files, and its chat template. Each is
 * read only for a field that needs it, so the files of a complete card are not read.
 * @throws CardError
 */
export async function completeCard(written: WrittenCard, place: CardPlace): Promise<CompletedCard> {
  const card = withExtensions(written, place)
  const found = { headers: modelHeaders(card.engine, place), origins: new Origins() }
  const completed = await new Completion(await withEmbedding(card, place, found), place, found).complete()
  const family = completed.card.family as FamilyName | null
  // A card that names the modalities of all its ids leaves nothing to the files.
  const isOpen = (card.serves ?? [{}]).some(({ modalities }) => modalities === undefined)
  const lacking = isOpen ? await lackingEncoder({ engine: card.engine, family, written }, found.headers) : null
  if (lacking?.isPromised === true) place.warn(new CardError(place.file, 'engine.projector', lacking.message).message)
  return completed
}

class Completion {
  readonly #card: WrittenCard
  readonly #place: CardPlace
  readonly #serves: readonly WrittenServe[]
  readonly #headers: ModelHeaders
  readonly #origins: Origins

  constructor(
    card: WrittenCard,
    place: CardPlace,
    { headers, origins }: { readonly headers: ModelHeaders; readonly origins: Origins },
  ) {
    this.#card = card
    this.#place = place
    this.#serves = card.serves ?? [{}]
    this.#headers = headers
    this.#origins = origins
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
    const unserved = await this.#unserved()
    const family = await this.#family()
    const knowledge: Family | null = family === null ? null : FAMILIES[family]
    if (knowledge?.warning !== undefined && card.dialect === undefined) this.#warn('family', knowledge.warning)
    const reading = this.#leavesOpen('capabilities', 'reasoning') ? await this.#template() : null
    const media = await deriveMedia({
      card,
      serves: this.#serves,
      family,
      headers: this.#headers,
      contextTokens: context.contextTokens,
      origins: this.#origins,
      warn: (message) => this.#warn('engine.projector', message),
    })
    const toolSyntax = this.#toolSyntax(knowledge, reading)
    const thought = this.#thought(knowledge, reading)
    const dialect = card.dialect === undefined ? (knowledge?.dialect ?? null) : card.dialect
    if (card.dialect === undefined) this.#origins.note('dialect', dialect, family === null ? 'default' : named(family))
    const serves = identity.serves.map((served, index) =>
      this.#served(served, index, { context, media, toolSyntax, thought, dialect, unserved }),
    )
    const completed = {
      ...card,
      ...identity,
      serves: [...serves, ...this.#adapted(serves)],
      family,
      engine: {
        ...card.engine,
        ...(await this.#printedTokens(knowledge, reading, { toolSyntax, thought, dialect })),
        ...(reading?.builtIn === undefined ? {} : { chatTemplate: reading.builtIn }),
        ...context.engine,
      },
      image: media.image,
      ...(this.#embeds ? {} : { video: media.video, audio: media.audio }),
      dialect,
      toolSyntax,
      thought,
      schemaPrompt: this.#schemaPrompt(),
      decision: this.#decision(knowledge),
    }
    return { card: completed, origins: this.#origins }
  }

  /** Ids for the adapters that no id chooses: that of the model alone, with the adapter's name. */
  #adapted(serves: readonly Record<string, unknown>[]): readonly Record<string, unknown>[] {
    const { engine } = this.#card
    const adapters = engine.type === undefined || engine.type === 'local' ? (engine.adapters ?? []) : []
    const { aliases: _, ...plain } = serves.find(({ adapter }) => adapter === undefined) ?? serves[0]!
    return adapters
      .filter(({ name }) => !serves.some(({ adapter }) => adapter === name))
      .map(({ name }) => ({ ...plain, id: `${plain.id}:${name}`, name: `${plain.name} (${name})`, adapter: name }))
  }

  get #embeds(): boolean {
    return this.#card.embedding !== undefined
  }

  /** Whether an id leaves out one of these fields. */
  #leavesOpen(...fields: readonly (keyof WrittenServe & string)[]): boolean {
    return this.#serves.some((served) => fields.some((field) => served[field] === undefined))
  }

  /** Whether the card itself promises something for one of its ids. */
  #promises(field: 'capabilities' | 'modalities', what: string): boolean {
    return this.#serves.some((served) => served[field]?.includes(what))
  }

  #warn(field: string, message: string): void {
    this.#place.warn(new CardError(this.#place.file, field, message).message)
  }

  /**
   * Why images of a model in a Hugging Face folder are not served, if the card leaves that open.
   * @throws CardError for a card that promises them, without their limits.
   */
  async #unserved(): Promise<string | null> {
    if (!this.#leavesOpen('modalities') && this.#card.image !== undefined) return null
    const promised = (['image', 'video'] as const).find((what) => this.#promises('modalities', what))
    if (promised === undefined && !this.#leavesOpen('modalities')) return null
    const unserved = (await this.#headers.folder())?.unserved ?? null
    if (unserved === null) return null
    if (promised !== undefined)
      throw new CardError(this.#place.file, 'serves', `promises ${promised}s, but ${unserved}`)
    this.#warn('engine.tokenizer', unserved)
    return unserved
  }

  /** The family that the card names, or that its files show. A complete card has none. */
  async #family(): Promise<FamilyName | null> {
    const { family, dialect } = this.#card
    if (family !== undefined) return family
    if (this.#card.engine.type === 'openai') return this.#origins.note('family', null, 'default')
    const isOpen = this.#leavesOpen('capabilities', 'modalities', 'outputFormats', 'reasoning')
    if (!isOpen && dialect !== undefined) return null
    const encoder = await this.#headers.encoder()
    const marks = familyMarks({ language: await this.#headers.language(), encoder })
    const folder = await this.#headers.folder()
    if (folder?.family) return this.#origins.note('family', folder.family, 'architectures of config.json')
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
    if (encoder !== null && folder === null && !isComplete) {
      const problem = marks.projector === null ? null : projectorProblem(marks.projector)
      const why = problem ?? 'is of no known family; name one in "family" if it is like another'
      this.#warn('engine.projector', `${seen} with ${architecture} ${why}: the model is served text only`)
    }
    return this.#origins.note('family', null, 'default')
  }

  async #template(): Promise<TemplateReading> {
    const { chatTemplate, type } = this.#card.engine
    if (type === 'openai') return { toolSyntax: TEXT_TOOL_SYNTAX, thought: null, warnings: [], origin: 'default' }
    const reading = await deriveTemplate(chatTemplate, await this.#headers.language(), this.#place)
    for (const warning of reading.warnings) this.#warn('engine.chatTemplate', warning)
    if (reading.builtIn !== undefined && chatTemplate === undefined)
      this.#origins.note('engine.chatTemplate', reading.builtIn, reading.origin)
    return reading
  }

  /** The number of cells, and the limits of ids. */
  async #context() {
    const { contextTokens: given, maxSequences } = this.#card.engine
    const origin = 'engine.contextTokens'
    if (given !== undefined) {
      if (!this.#leavesOpen('maxContextTokens') || runsOnServers(this.#card.engine))
        return { engine: {}, contextTokens: given, origin }
      const language = await this.#headers.language()
      const trained = language.get(`${language.get('general.architecture')}.context_length`)
      const contextTokens = typeof trained === 'number' ? Math.min(given, trained) : given
      return { engine: {}, contextTokens, origin }
    }
    const derived = await deriveContext(this.#card, await this.#headers.language(), this.#place)
    const contextTokens = this.#origins.note(origin, derived.contextTokens, derived.origin)
    if (maxSequences !== undefined) return { engine: { contextTokens }, contextTokens, origin }
    this.#origins.note('engine.maxSequences', derived.maxSequences, derived.sequencesOrigin)
    return { engine: { contextTokens, maxSequences: derived.maxSequences }, contextTokens, origin }
  }

  #toolSyntax(family: Family | null, reading: TemplateReading | null): unknown {
    const { toolSyntax } = this.#card
    if (toolSyntax !== undefined) return toolSyntax
    if (this.#leavesOpen('capabilities') && reading?.toolSyntax)
      return this.#origins.note('toolSyntax', reading.toolSyntax, PROBE)
    // The template of a model that promises no tools may show it none, which the focus tool would need.
    if (!this.#promises('capabilities', 'tool_calling')) return undefined
    if (this.#card.engine.type === 'openai') return this.#origins.note('toolSyntax', TEXT_TOOL_SYNTAX, 'default')
    return this.#origins.note('toolSyntax', family?.toolSyntax ?? undefined, 'family')
  }

  #thought(family: Family | null, reading: TemplateReading | null): unknown {
    const { thought } = this.#card
    if (this.#card.engine.type === 'openai') {
      const thinks = thought !== undefined || this.#serves.some(({ reasoning }) => reasoning)
      return thinks
        ? merged({ exemplars: family?.thought?.exemplars ?? false, ...TEXT_THOUGHT }, thought, true)
        : undefined
    }
    if (!this.#leavesOpen('reasoning') || reading === null) {
      if (family?.thought && thought === undefined) this.#origins.note('thought', true, 'family')
      return merged(family?.thought ?? null, thought, true)
    }
    const own = family?.reasonsWithoutTemplateSwitch ? family.thought : null
    const found =
      reading.thought === null ? own : { exemplars: family?.thought?.exemplars ?? false, ...reading.thought }
    if (found !== null && thought === undefined) this.#origins.note('thought', true, found === own ? 'family' : PROBE)
    return merged(found, thought, true)
  }

  /** Marks of calls, thoughts and places that the engine would otherwise remove from the model's text. */
  async #printedTokens(
    family: Family | null,
    reading: TemplateReading | null,
    { toolSyntax, thought, dialect }: Pick<ServedFrom, 'toolSyntax' | 'thought' | 'dialect'>,
  ): Promise<{ printedTokens?: readonly string[] }> {
    if (this.#card.engine.printedTokens !== undefined || this.#card.engine.type === 'openai') return {}
    const calls = this.#promises('capabilities', 'tool_calling')
    const known = calls ? (family?.printedTokens ?? []) : []
    const marks =
      reading !== null && typeof toolSyntax === 'string' ? (TOOL_MARKS[toolSyntax as ToolSyntaxName] ?? []) : []
    const { begin, end } = isObject(thought) ? thought : USUAL_THOUGHT
    const ends = reading !== null ? [String(end), String(begin).trim()] : []
    // A complete card is not second-guessed.
    const isOpen = reading !== null || this.#card.dialect === undefined
    const grounds = this.#serves.some(({ outputFormats }) => outputFormats?.some((format) => format !== 'text') ?? true)
    const places = isOpen && grounds ? (dialectNamed(dialect)?.marks ?? []) : []
    const wanted = [...marks, ...ends, ...places]
    const found = wanted.length === 0 ? new Map() : findTokens(await this.#headers.language(), wanted)
    const controls = [...found].filter(([, { control }]) => control).map(([token]) => token)
    const printedTokens = [...new Set([...known, ...controls])]
    if (printedTokens.length === 0) return {}
    if (reading !== null || controls.length > 0)
      this.#origins.note('engine.printedTokens', printedTokens, 'tokenizer.ggml.token_type')
    return { printedTokens }
  }

  /** Forms of replies that the engine can enforce. */
  #enforced(): readonly string[] {
    const { engine } = this.#card
    return engine.type === 'openai' ? ENFORCED[engine.constraints ?? 'none'] : ['response_format_json_schema', 'regex']
  }

  /**
   * A card that gives some of the fields gets the rest from its family, or from the defaults for instruction models.
   */
  #decision(family: Family | null): unknown {
    const { decision } = this.#card
    const forms = family?.decision ?? DECIDES_BY_LETTERS
    this.#origins.note('decision', forms, family?.decision ? 'family' : 'default')
    return merged(forms, decision, true)
  }

  #schemaPrompt(): unknown {
    const { schemaPrompt } = this.#card
    if (schemaPrompt !== undefined) return schemaPrompt ?? undefined
    if (!this.#leavesOpen('capabilities')) return undefined
    return this.#origins.note('schemaPrompt', SCHEMA_PROMPT, 'default')
  }

  #served(served: WrittenServe, index: number, about: ServedFrom): Record<string, unknown> {
    const { context, media, toolSyntax, thought, dialect, unserved } = about
    const add = <Value>(field: string, value: Value, origin: string) =>
      served[field] === undefined ? this.#origins.note(`serves[${index}].${field}`, value, origin) : served[field]
    const shown = this.#embeds ? media.modalities.filter((one) => EMBEDDED.includes(one)) : media.modalities
    const modalities = add('modalities', shown, 'the encoders') as readonly string[]
    const maxContextTokens = add('maxContextTokens', context.contextTokens, context.origin)
    const mostOutput = this.#card.engine.type === 'openai' ? MOST_OUTPUT_ELSEWHERE : MOST_OUTPUT
    const description = served.description ?? (unserved === null ? undefined : `Text only: ${unserved}.`)
    return {
      ...served,
      ...(description === undefined ? {} : { description }),
      modalities,
      capabilities: add(
        'capabilities',
        [...this.#enforced(), ...(toolSyntax === undefined ? [] : ['tool_calling'])],
        toolSyntax === undefined ? 'default' : 'default, toolSyntax',
      ),
      outputFormats: add('outputFormats', formats(dialect, modalities), dialect === null ? 'default' : 'dialect'),
      reasoning: add('reasoning', thought !== undefined, 'thought'),
      maxContextTokens,
      maxOutputTokens: add('maxOutputTokens', Math.min(mostOutput, maxContextTokens as number), 'default'),
    }
  }
}

interface ServedFrom {
  readonly context: { readonly contextTokens: number; readonly origin: string }
  readonly media: MediaLimits
  readonly toolSyntax: unknown
  readonly thought: unknown
  readonly dialect: unknown
  readonly unserved: string | null
}

/** Inputs of a model that makes embeddings or scores. */
const EMBEDDED = ['text', 'image']
const PROBE = 'the chat template'
function originOf({ projector }: FamilyMarks, { key }: Family): string {
  if (key !== undefined) return key
  return projector === null ? 'general.architecture' : 'clip.projector_type, general.architecture'
}

/** Null for an unknown name, which the card's schema rejects. */
function dialectNamed(name: unknown): Dialect | null {
  return typeof name === 'string' && name in DIALECTS ? DIALECTS[name as DialectName] : null
}

/** The output formats of a dialect that suit the modalities. */
function formats(dialect: unknown, modalities: readonly string[]): readonly string[] {
  const offered = modalities.includes('image') ? (dialectNamed(dialect)?.formats ?? []) : []
  return ['text', ...offered.filter((format) => format !== 'clip' || modalities.includes('video'))]
}
