import type { Annotation } from '../../grounding/annotation.ts'
import { type Assets, assetsFor } from '../../grounding/assets.ts'
import type { AnnotationFormat } from '../../grounding/hints.ts'
import { markupPieces } from '../../grounding/markup-pieces.ts'
import { formatAnnotation } from '../../grounding/markup-writer.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import { invalidRequest } from '../../lib/errors/errors.ts'
import type { Param } from '../../lib/errors/param.ts'
import {
  type ContentPart,
  type Modality,
  mediaIn,
  modalityOf,
  type PlacedMessage,
  partsOf,
} from '../request/message.ts'

/**
 * The part of a conversation that the model is shown. A model that cannot say which of several pictures an annotation is
 * about is shown one at a time, so that the server knows.
 */
export interface View {
  readonly messages: readonly PlacedMessage[]
  /** The assets that the reply's annotations may be about. */
  readonly assets: Assets
  /** The one asset that it shows; null when it shows the whole conversation. */
  readonly shown: number | null
  /** The assets among which the model chooses for each annotation; absent if it names none. */
  readonly choices?: readonly number[]
}

/** Returns a view of the whole conversation. */
export function wholeView(messages: readonly PlacedMessage[]): View {
  return { messages, assets: assetsOf(messages), shown: null }
}

/** Maximum completions over the views of one request: as many as there may be images. */
const MOST_COMPLETIONS = 256

/** Indices count all media, in the order of the messages and of their parts. */
export function assetsOf(messages: readonly PlacedMessage[]): Assets {
  const modalities = mediaIn(messages).map(({ part }) => modalityOf(part))
  const having = (modality: Modality) => modalities.flatMap((own, index) => (own === modality ? [index] : []))
  return { count: modalities.length, images: having('image'), videos: having('video') }
}

/**
 * Returns the views in which a model is asked for annotations, in the order of the pictures.
 * @param nothing the model's reply for a picture in which it finds nothing.
 */
export function viewsOf(
  messages: readonly PlacedMessage[],
  format: AnnotationFormat,
  { namesAssets, nothing }: { readonly namesAssets: boolean; readonly nothing: string },
): View[] {
  const whole = wholeView(messages)
  const { assets } = whole
  const choices = assetsFor(format, assets)
  if (choices.length <= 1) return [whole]
  const history = new History(messages, nothing)
  if (namesAssets) return [{ messages: history.retold((asset) => asset), assets, shown: null, choices }]
  const hidden = new Set(choices)
  return choices.map((shown) => partialView(history, assets, hidden, shown))
}

/**
 * Shows one of several assets. Messages are built on demand: there may be many views of many messages.
 * @param hidden the assets that are hidden, except for `shown`.
 */
function partialView(history: History, assets: Assets, hidden: ReadonlySet<number>, shown: number): View {
  const isLeft = (asset: number) => asset === shown || !hidden.has(asset)
  const rename: Rename = (asset) => (asset === shown ? undefined : isLeft(asset) ? asset : null)
  let messages: readonly PlacedMessage[] | null = null
  return {
    shown,
    assets: { ...assets, images: assets.images.filter(isLeft), videos: assets.videos.filter(isLeft) },
    get messages() {
      messages ??= withPlaceholders(history.retold(rename), isLeft)
      return messages
    },
  }
}

/** @throws ApiError 400 for more completions than a request may have over its views. */
export function checkCompletions(count: number, param: Param): void {
  if (count <= MOST_COMPLETIONS) return
  throw invalidRequest(
    `The model is asked about one picture at a time, which takes ${count} completions; at most ${MOST_COMPLETIONS} are possible`,
    param,
  )
}

/** Returns the parts that all prompts begin with: whole parts, because engines tokenise each part separately. */
export function sharedBeginning(prompts: readonly (readonly PromptPart[])[]): readonly PromptPart[] {
  const [first, ...others] = prompts
  const end = first!.findIndex((part, index) => others.some((other) => !isSame(part, other[index])))
  return end === -1 ? first! : first!.slice(0, end)
}

function isSame(part: PromptPart, other: PromptPart | undefined): boolean {
  if (part.type !== 'text') return part === other
  return other?.type === 'text' && part.text === other.text && part.trusted === other.trusted
}

/**
 * Replaces hidden media with names, because a question may refer to one by its number. Consecutive media share one name,
 * which keeps a view of many pictures short.
 */
function withPlaceholders(messages: readonly PlacedMessage[], isLeft: (asset: number) => boolean): PlacedMessage[] {
  let asset = 0
  const counts = { image: 0, video: 0, audio: 0 }
  const shown = (parts: readonly ContentPart[]): ContentPart[] => {
    const left: (ContentPart | Hidden)[] = []
    for (const part of parts) {
      const modality = part.type === 'text' ? null : modalityOf(part)
      if (modality !== null) counts[modality]++
      const before = left.at(-1)
      if (modality === null || isLeft(asset++)) left.push(part)
      else if (before?.type === 'hidden' && before.modality === modality) before.last = counts[modality]
      else left.push({ type: 'hidden', modality, first: counts[modality], last: counts[modality] })
    }
    return left.map((part) => (part.type === 'hidden' ? { type: 'text', text: placeholder(part) } : part))
  }
  return messages.map((placed) => {
    const { message, param } = placed
    if ((message.role !== 'user' && message.role !== 'tool') || typeof message.content === 'string') return placed
    return { param, message: { ...message, content: shown(message.content) } }
  })
}

/** Names consecutive media by their numbers among media of their kind. */
interface Hidden {
  readonly type: 'hidden'
  readonly modality: Modality
  readonly first: number
  last: number
}

function placeholder({ modality, first, last }: Hidden): string {
  return first === last ? `[${modality} ${first}]\n` : `[${modality}s ${first} to ${last}]\n`
}

/** Maps an asset's index to the one in the prompt: undefined for no index, null to leave out an annotation. */
type Rename = (asset: number) => number | null | undefined

/** The annotations of earlier replies, whose indices a view may have to rewrite. */
class History {
  readonly #messages: readonly PlacedMessage[]
  readonly #nothing: string
  /** The texts of each reply that has annotations, by its index among the messages. */
  readonly #replies = new Map<number, readonly ToldText[]>()

  /** @param nothing the text of a reply whose annotations are all left out. */
  constructor(messages: readonly PlacedMessage[], nothing: string) {
    this.#messages = messages
    this.#nothing = nothing
    let count = 0
    for (const [index, placed] of messages.entries()) {
      const parts = [...partsOf(placed)].map(({ part }) => part)
      for (const { type } of parts) if (type !== 'text') count++
      if (placed.message.role !== 'assistant' || count === 0) continue
      // An annotation without an index is about the last of the media in its request.
      const last = count - 1
      const texts = parts.map((part) => ({ last, markup: part.type === 'text' ? markupPieces(part.text) : [] }))
      if (texts.some(({ markup }) => markup.some((one) => typeof one !== 'string'))) this.#replies.set(index, texts)
    }
  }

  retold(rename: Rename): readonly PlacedMessage[] {
    if (this.#replies.size === 0) return this.#messages
    const messages = [...this.#messages]
    for (const [index, texts] of this.#replies) {
      const placed = messages[index]!
      const { message } = placed
      if (message.role !== 'assistant') continue
      const told = texts.map((text) => this.#told(text, rename))
      const content =
        typeof message.content === 'string' ? told[0]! : told.map((text) => ({ type: 'text' as const, text }))
      messages[index] = { ...placed, message: { ...message, content } }
    }
    return messages
  }

  #told({ last, markup }: ToldText, rename: Rename): string {
    const told = markup.map((one) => {
      if (typeof one === 'string') return one
      const changed = renamed(one, last, rename)
      return changed === null ? '' : formatAnnotation(changed)
    })
    const text = told.join('')
    return text.trim() === '' && markup.length > 0 ? this.#nothing : text
  }
}

interface ToldText {
  /** Returns the asset that an annotation without an index is about. */
  readonly last: number
  /** Texts and the annotations between them. */
  readonly markup: readonly (string | Annotation)[]
}

function renamed<Of extends Annotation>(annotation: Of, inherited: number, rename: Rename): Of | null {
  const { assetIdx, ...rest } = annotation
  const own = annotation.kind === 'track' ? annotation.waypoints[0]?.assetIdx : undefined
  const about = assetIdx ?? own ?? inherited
  if (annotation.kind === 'collection') {
    const members = annotation.members.flatMap((member) => renamed(member, about, rename) ?? [])
    return members.length === 0 ? null : ({ ...rest, members } as Annotation as Of)
  }
  const name = rename(about)
  if (name === null) return null
  const unnamed =
    annotation.kind === 'track' ? { waypoints: annotation.waypoints.map(({ assetIdx: _, ...leaf }) => leaf) } : {}
  return { ...rest, ...unnamed, ...(name === undefined ? {} : { assetIdx: name }) } as Annotation as Of
}
