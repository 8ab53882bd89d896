import { type Annotation, type AnnotationFormat, type Assets, assetsFor, mapAnnotations } from '../grounding/index.ts'
import type { PromptPart } from '../inference/engine.ts'
import { invalidRequest } from '../lib/errors.ts'
import { type ContentPart, type Modality, modalityOf, type PlacedMessage, partsOf } from './request/message.ts'

/**
 * What the model is shown of a conversation. A model that cannot say which of several pictures an annotation is about is
 * shown one after the other, so that the server knows.
 */
export interface View {
  readonly messages: readonly PlacedMessage[]
  /** What annotations of the reply may be about. */
  readonly assets: Assets
  /** The asset that it shows of several; null where it shows the whole conversation. */
  readonly shown: number | null
  /** Among which the model itself has to choose for each annotation; absent where it names none. */
  readonly choices?: readonly number[]
}

/** The most completions over views that one request may have: as many as there may be images. */
const MOST_COMPLETIONS = 256

/** Indices count all media, in the order of the messages and of their parts. */
export function assetsOf(messages: readonly PlacedMessage[]): Assets {
  const media = messages.flatMap((placed) => [...partsOf(placed)]).filter(({ part }) => part.type !== 'text')
  const having = (modality: Modality) =>
    media.flatMap(({ part }, index) => (part.type !== 'text' && modalityOf(part) === modality ? [index] : []))
  return { count: media.length, images: having('image'), videos: having('video') }
}

/**
 * The views in which a model is asked for annotations, in the order of the pictures.
 * @param nothing what the model says of a picture where it finds nothing.
 */
export function viewsOf(
  messages: readonly PlacedMessage[],
  format: AnnotationFormat,
  { namesAssets, nothing }: { readonly namesAssets: boolean; readonly nothing: string },
): View[] {
  const assets = assetsOf(messages)
  const choices = assetsFor(format, assets)
  if (choices.length <= 1) return [{ messages, assets, shown: null }]
  if (namesAssets) {
    return [{ messages: retold(messages, (asset) => asset, ''), assets, shown: null, choices }]
  }
  const hidden = new Set(choices)
  return choices.map((shown) => {
    const answers = retold(
      messages,
      (asset) => (asset === shown ? undefined : hidden.has(asset) ? null : asset),
      nothing,
    )
    const isLeft = (asset: number) => asset === shown || !hidden.has(asset)
    return {
      messages: withPlaceholders(answers, isLeft),
      assets: { ...assets, images: assets.images.filter(isLeft), videos: assets.videos.filter(isLeft) },
      shown,
    }
  })
}

/** @throws ApiError 400 for more completions over the views of a request than it may have. */
export function checkCompletions(count: number, param: string): void {
  if (count <= MOST_COMPLETIONS) return
  throw invalidRequest(
    `The model is asked about one picture after the other, which takes ${count} completions; at most ${MOST_COMPLETIONS} are possible`,
    param,
  )
}

/** What all prompts begin with: whole parts, since engines tokenise parts one by one. */
export function sharedBeginning(prompts: readonly (readonly PromptPart[])[]): readonly PromptPart[] {
  const [first, ...others] = prompts
  const end = first!.findIndex((part, index) => others.some((other) => !isSame(part, other[index])))
  return end === -1 ? first! : first!.slice(0, end)
}

function isSame(part: PromptPart, other: PromptPart | undefined): boolean {
  if (part.type !== 'text') return part === other
  return other?.type === 'text' && part.text === other.text && part.trusted === other.trusted
}

/** Names in place of the media that are not shown: a question may refer to one by its number. */
function withPlaceholders(messages: readonly PlacedMessage[], isLeft: (asset: number) => boolean): PlacedMessage[] {
  let asset = 0
  const counts = { image: 0, video: 0, audio: 0 }
  const shown = (part: ContentPart): ContentPart => {
    if (part.type === 'text') return part
    const modality = modalityOf(part)
    counts[modality]++
    return isLeft(asset++) ? part : { type: 'text', text: `[${modality} ${counts[modality]}]\n` }
  }
  return messages.map((placed) => {
    const { message } = placed
    if ((message.role !== 'user' && message.role !== 'tool') || typeof message.content === 'string') return placed
    return { ...placed, message: { ...message, content: message.content.map(shown) } }
  })
}

/**
 * The conversation with what earlier replies say about its media changed.
 * @param rename the index of an asset to what the model is told in its place: undefined for no index, null to leave out the
 * annotation.
 * @param nothing what is left of a reply that consists of annotations which are left out.
 */
function retold(
  messages: readonly PlacedMessage[],
  rename: (asset: number) => number | null | undefined,
  nothing: string,
): PlacedMessage[] {
  let count = 0
  return messages.map((placed) => {
    const { message } = placed
    if (message.role !== 'assistant') {
      for (const { part } of partsOf(placed)) if (part.type !== 'text') count++
      return placed
    }
    const { content } = message
    if (content === null || content === undefined || count === 0) return placed
    // Without an index, an annotation is about the last of the media that its request had.
    const change = (text: string) => {
      const changed = mapAnnotations(text, (annotation) => renamed(annotation, count - 1, rename))
      return changed.trim() === '' && text.trim() !== '' ? nothing : changed
    }
    const changed =
      typeof content === 'string' ? change(content) : content.map((part) => ({ ...part, text: change(part.text) }))
    return { ...placed, message: { ...message, content: changed } }
  })
}

function renamed<Of extends Annotation>(
  annotation: Of,
  inherited: number,
  rename: (asset: number) => number | null | undefined,
): Of | null {
  const { assetIdx, ...rest } = annotation
  const about = assetIdx ?? inherited
  if (annotation.kind === 'collection') {
    const members = annotation.members.flatMap((member) => renamed(member, about, rename) ?? [])
    return members.length === 0 ? null : ({ ...rest, members } as Annotation as Of)
  }
  const name = rename(about)
  if (name === null) return null
  const own =
    annotation.kind === 'track' ? { waypoints: annotation.waypoints.map(({ assetIdx: _, ...leaf }) => leaf) } : {}
  return { ...rest, ...own, ...(name === undefined ? {} : { assetIdx: name }) } as Annotation as Of
}
