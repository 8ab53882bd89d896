import { audioTokens } from '../../../media/audio-tokens.ts'
import type { RgbImage } from '../../../media/pixels.ts'
import { isPrepared } from '../../../media/resize.ts'
import type { AudioPart, MediaPart, PromptPart, TextPart } from '../../contract/parts.ts'
import { FailureError } from '../failure.ts'
import type { Model } from '../native/model.ts'
import type { EncodableChunk, Projector } from '../native/projector.ts'
import type { EngineSettings } from '../protocol.ts'
import { AudioFeatureCache } from './audio-feature-cache.ts'
import { ContentKeys, picturesOf } from './content-keys.ts'
import type { EncoderCache } from './encoder-cache.ts'
import { EncoderTurns, type EncodeTurn, WHOLE } from './encoder-turns.ts'
import { JoinedTexts } from './joined-texts.ts'
import { mediaChunks, type PicturePart, PictureSource, PreparedPictures } from './picture-source.ts'
import { givenTokens, type ReadingTerms, Texts } from './texts.ts'

/** A tokenised prompt, or a part of one. May hold native memory until closed. */
export interface TokenisedPrompt {
  readonly chunks: readonly PromptChunk[]
  /** All tokens, each one KV cell. */
  readonly tokens: number
  /** Tokens of images; and of audio as counted, which encoders may pad. */
  readonly imageTokens: number
  readonly audioTokens: number
  close(): void
}

export type PromptChunk = TextTokens | MediaTokens

interface TextTokens {
  readonly type: 'text'
  readonly tokens: Int32Array
}

/** An image, a tile of one, a pair of video frames, or a segment of audio. */
export interface MediaTokens {
  readonly type: 'media'
  /** Its size and positions, without pixels or samples. */
  readonly encodable: EncodableChunk
  /** Identifies the content within its organisation. */
  readonly key: string
  /** Cached encoder output for the same content, or undefined. */
  knownEmbeddings(): Float32Array | undefined
  /** Runs the encoder for a turn. Blocks. @returns its output; null while that is incomplete. */
  encode(turn?: EncodeTurn): Float32Array | null
  /** Encodes all of it on another thread, for encoders on a device; `knownEmbeddings` then returns the output. */
  encodeAside(): Promise<void>
}

type ReadPart = Pick<TokenisedPrompt, 'chunks' | 'close'>

/** Turns the parts of a prompt into text tokens and media to encode. Admission and the token count of a request call it. */
export class PromptReader {
  readonly #projector: Projector | null
  readonly #limits: Pick<EngineSettings, 'image' | 'audio'>
  readonly #cache: EncoderCache
  readonly #audio: AudioFeatureCache | null
  readonly #texts: Texts
  readonly #joined: JoinedTexts
  readonly #model: Model
  readonly #keys = new ContentKeys()
  readonly #pictures: PreparedPictures | null
  readonly #turns = new EncoderTurns()

  /** @param readsAside whether other threads tokenise texts. */
  constructor(
    model: Model,
    projector: Projector | null,
    limits: Pick<EngineSettings, 'image' | 'audio'>,
    cache: EncoderCache,
    readsAside = false,
  ) {
    this.#projector = projector
    this.#limits = limits
    this.#cache = cache
    this.#audio = projector === null ? null : new AudioFeatureCache(projector, this.#keys)
    this.#pictures = projector === null ? null : new PreparedPictures(projector)
    this.#texts = new Texts(model, readsAside)
    this.#joined = new JoinedTexts(model)
    this.#model = model
  }

  /**
   * @param organisation owner of the request. Encoded images are shared only within it: timing would reveal them to others.
   * @param param name of the input, for errors.
   * @param before the prompt that the parts continue; absent at the beginning.
   * @param isTransient whether encoded images need not outlive the prompt.
   */
  read(
    parts: readonly PromptPart[],
    organisation: string,
    param: string,
    before?: TokenisedPrompt,
    isTransient = false,
  ): TokenisedPrompt {
    for (const part of parts.filter(isPicture)) for (const picture of picturesOf(part)) checkPixels(picture)
    return this.#inUse(this.size(parts, organisation, param, before), isTransient)
  }

  /** The same for measuring sizes only: pictures need no pixels, and nothing can be encoded. */
  size(parts: readonly PromptPart[], organisation: string, param: string, before?: TokenisedPrompt): TokenisedPrompt {
    const [first] = parts
    if (first?.type === 'text' && first.tokens !== undefined) {
      return textPrompt(givenTokens(first.tokens, this.#model, param))
    }
    const last = before?.chunks.at(-1)
    const token = last?.type === 'text' ? last.tokens.at(-1) : undefined
    const continues = token !== undefined && !this.#model.isControl(token)
    const prompt = this.#read(this.#joined.join(parts, continues), organisation, param)
    return before === undefined || before.tokens === 0 ? this.#begin(prompt) : prompt
  }

  /** Keeps the embeddings of a prompt's media until it is closed. */
  #inUse(prompt: TokenisedPrompt, isTransient: boolean): TokenisedPrompt {
    const keys = prompt.chunks.flatMap((chunk) => (chunk.type === 'media' ? [chunk.key] : []))
    if (keys.length === 0) return prompt
    const ends = keys.map((key) => this.#cache.use(key, isTransient))
    const close = () => {
      for (const end of ends) end()
      for (const chunk of prompt.chunks) if (chunk.type === 'media') this.#turns.leave(chunk.encodable)
      prompt.close()
    }
    return { ...prompt, close }
  }

  /** Prepends the BOS token if the model needs it and the template has not written it. */
  #begin(prompt: TokenisedPrompt): TokenisedPrompt {
    const { beginToken } = this.#model
    const first = prompt.chunks.find((chunk) => chunk.type === 'media' || chunk.tokens.length > 0)
    if (beginToken === null || first === undefined) return prompt
    if (first.type === 'text' && first.tokens[0] === beginToken) return prompt
    const begin: PromptChunk = { type: 'text', tokens: Int32Array.of(beginToken) }
    return { ...prompt, chunks: [begin, ...prompt.chunks], tokens: prompt.tokens + 1 }
  }

  #read(parts: readonly PromptPart[], organisation: string, param: string): TokenisedPrompt {
    const inputs = parts.filter(isMedia)
    if (inputs.length === 0) return this.#readText(parts as readonly TextPart[])
    this.#checkCapable(inputs, param)
    for (const part of inputs) this.#check(part)
    const prompts = groups(parts, (part) => this.#tokensOf(part) !== undefined).map((group) => {
      if (group.type === 'audio') return this.#readAudio(group, organisation)
      return group.type === 'text' ? this.#readText([group]) : this.#readTextAndImages(group.parts, organisation)
    })
    const chunks = prompts.flatMap((prompt) => prompt.chunks)
    const close = () => {
      for (const prompt of prompts) prompt.close()
    }
    const audioTokens = inputs.reduce((sum, part) => sum + this.#audioTokensOf(part), 0)
    return { chunks, ...countTokens(chunks), audioTokens, close }
  }

  /** Whether reading the parts of a prompt is slow, so that `prepare` should run first. */
  needsPreparation(parts: readonly PromptPart[]): boolean {
    return parts.some(isMedia) || this.#texts.areLong(parts.filter(isText))
  }

  /**
   * Does the slow part of reading a prompt without delaying steps.
   * @param most maximum tokens of its text.
   * @param follows whether it follows another prompt, whose text it may continue.
   * @returns false if it has more.
   */
  async prepare(
    parts: readonly PromptPart[],
    organisation: string,
    most: number,
    signal: AbortSignal,
    follows = false,
  ): Promise<boolean> {
    if (!(await this.#prepareTexts(parts, most, { organisation, signal }, follows))) return false
    const media = parts.filter(isMedia)
    for (let first = 0; first < media.length; first += HASHES_AT_ONCE) {
      const some = media.slice(first, first + HASHES_AT_ONCE)
      // Wait for all of them even after an error: they still use the pixels.
      const ends = await Promise.allSettled(some.map((part) => this.#prepareMedia(part, organisation, signal)))
      for (const end of ends) if (end.status === 'rejected') throw end.reason
      signal.throwIfAborted()
    }
    return true
  }

  async #prepareTexts(
    parts: readonly PromptPart[],
    most: number,
    terms: ReadingTerms,
    follows: boolean,
  ): Promise<boolean> {
    const texts = parts.filter(isText)
    if (!this.#model.readsAsOne) return this.#texts.prepare(texts, most, terms)
    if (!this.#texts.areLong(texts)) return true
    return this.#texts.mayFit(texts, most) && this.#joined.prepare(parts, most, follows, this.#texts, terms)
  }

  async #prepareMedia(part: MediaPart, organisation: string, signal: AbortSignal): Promise<void> {
    const hashed = this.#keys.prepare(part, organisation)
    if (part.type === 'audio') {
      await hashed
      if (signal.aborted || !this.#projector?.supportsAudio) return
      this.#check(part)
      await this.#audio!.prepare(part, organisation)
    } else if (this.#projector?.usesDevice && this.#projector.supportsImages && picturesOf(part).every(hasPixels)) {
      // Both take some milliseconds on another thread. Most pictures are new; a known one need not wait.
      const prepared = this.#preparePixels(part, signal)
      prepared.catch(() => {})
      await hashed
      const isKnown = this.#cache.get(chunkKey(0, this.#keys.of(part, organisation))) !== undefined
      if (isKnown) prepared.then(() => this.#pictures!.release(part)).catch(() => {})
      else await prepared
    } else await hashed
  }

  async #preparePixels(part: PicturePart, signal: AbortSignal): Promise<void> {
    this.#check(part)
    await this.#pictures!.prepare(part, signal)
  }

  /** Number of tokens that the parts cost. Images need no pixels for that. */
  count(parts: readonly PromptPart[], organisation: string): number {
    const prompt = this.size(parts, organisation, 'messages')
    prompt.close()
    return prompt.tokens
  }

  close(): void {
    this.#audio?.close()
    this.#pictures?.close()
  }

  #readAudio(part: AudioPart, organisation: string): ReadPart {
    const { key, chunks, release } = this.#audio!.take(part, organisation)
    let index = 0
    const read = chunks.items.map((item): PromptChunk => {
      if (item.type === 'text') return item
      const name = chunkKey(index++, key)
      return this.#mediaTokens(item, () => name, item)
    })
    return { chunks: read, close: release }
  }

  #readTextAndImages(parts: readonly PromptPart[], organisation: string): ReadPart {
    const inputs = parts.filter(isPicture)
    if (inputs.length === 0) return this.#readText(parts as readonly TextPart[])
    const projector = this.#projector!
    const tokenised = projector.tokenize(parts, false)
    const encodables = mediaChunks(tokenised)
    const owner = { projector, keys: this.#keys, pictures: this.#pictures! }
    const sources = inputs.map((part) => new PictureSource(owner, part, organisation))
    // Some families cut an image into tiles, which are separate chunks.
    const owners =
      encodables.length === inputs.length
        ? sources.map((source) => ({ source, index: 0 }))
        : sources.flatMap((source) => Array.from({ length: source.countChunks() }, (_, index) => ({ source, index })))
    let next = 0
    const chunks = tokenised.items.map((item): PromptChunk => {
      if (item.type === 'text') return item
      const { source, index } = owners[next++]!
      return this.#mediaTokens(
        item,
        () => chunkKey(index, source.contentKey),
        { encode: (ms) => source.encode(index, ms), encodeAside: () => source.encodeAside(index) },
        () => source.know(index),
      )
    })
    const close = () => {
      for (const source of sources) source.close()
      tokenised.close()
    }
    return { chunks, close }
  }

  #readText(parts: readonly TextPart[]): TokenisedPrompt {
    const chunks = parts.map(
      (part): TextTokens => ({ type: 'text', tokens: this.#tokensOf(part) ?? this.#texts.tokenize(part) }),
    )
    return { chunks, ...countTokens(chunks), audioTokens: 0, close() {} }
  }

  /** Tokens that are known already. */
  #tokensOf(part: TextPart): Int32Array | undefined {
    return this.#joined.tokensOf(part) ?? this.#texts.preparedTokens(part)
  }

  /**
   * @param key computed only when needed.
   * @param encoding encodes it.
   * @param know called if it need not be encoded.
   */
  #mediaTokens(
    encodable: EncodableChunk,
    key: () => string,
    encoding: Pick<EncodableChunk, 'encode' | 'encodeAside'>,
    know: () => void = () => {},
  ): MediaTokens {
    const cache = this.#cache
    const turns = this.#turns
    const run = (ms: number) => {
      const embeddings = encoding.encode(ms)
      if (embeddings !== null) cache.set(key(), embeddings)
      return embeddings
    }
    return {
      type: 'media',
      encodable,
      get key() {
        return key()
      },
      knownEmbeddings: () => {
        const known = cache.get(key())
        if (known !== undefined) know()
        return known
      },
      encode: (turn = WHOLE) => turns.take(encodable, turn, run),
      encodeAside: async () => cache.set(key(), await encoding.encodeAside()),
    }
  }

  /** @throws FailureError if the model does not support a part. */
  #checkCapable(inputs: readonly MediaPart[], param: string): void {
    const projector = this.#projector
    const lacks = (words: string) =>
      new FailureError({ kind: 'invalid', message: `This model does not take ${words}.`, param })
    if (inputs.some(({ type }) => type !== 'audio') && !projector?.supportsImages) throw lacks('images')
    const takesAudio = projector?.supportsAudio && this.#limits.audio !== undefined
    if (inputs.some(({ type }) => type === 'audio') && !takesAudio) throw lacks('audio')
  }

  #audioTokensOf(part: MediaPart): number {
    return part.type === 'audio' ? audioTokens(part.samples.length, this.#limits.audio!) : 0
  }

  /** libmtmd would resize an image of any other size by its own rules, and coordinates would be wrong. */
  #check(part: MediaPart): void {
    if (part.type === 'audio') {
      if (part.samples.length < MIN_SAMPLES) throw new Error(`Audio of ${part.samples.length} samples is too short.`)
      return
    }
    const pictures = picturesOf(part)
    const first = pictures[0]!
    if (pictures.length > 2 || pictures.some(({ width, height }) => width !== first.width || height !== first.height)) {
      throw new Error('Only two frames of one size can be merged.')
    }
    const limits = this.#limits.image
    const unprepared = limits === null ? undefined : pictures.find((picture) => !isPrepared(picture, limits))
    if (unprepared === undefined) return
    throw new Error(`An image of ${unprepared.width}x${unprepared.height} pixels was not prepared for this model.`)
  }
}

/** Media that are hashed and prepared at once: the number of threads for that. */
const HASHES_AT_ONCE = 4

/** The library does not support less. */
const MIN_SAMPLES = 1600

type PartGroup = AudioPart | TextPart | { readonly type: 'text-and-images'; readonly parts: PromptPart[] }

/** Groups of parts that are tokenised together: those between audio and prepared texts. */
function groups(parts: readonly PromptPart[], isTokenised: (part: TextPart) => boolean): PartGroup[] {
  const result: PartGroup[] = []
  for (const part of parts) {
    const last = result.at(-1)
    if (part.type === 'audio' || (part.type === 'text' && isTokenised(part))) result.push(part)
    else if (last?.type === 'text-and-images') last.parts.push(part)
    else result.push({ type: 'text-and-images', parts: [part] })
  }
  return result
}

const isText = (part: PromptPart) => part.type === 'text'
const isMedia = (part: PromptPart) => part.type !== 'text'
const isPicture = (part: PromptPart) => part.type === 'image' || part.type === 'frames'

/** The key of one chunk of a media part. */
function chunkKey(index: number, contentKey: string): string {
  return `${index} ${contentKey}`
}

function hasPixels({ width, height, data }: RgbImage): boolean {
  return data.length === width * height * 3
}

function checkPixels(image: RgbImage): void {
  if (hasPixels(image)) return
  throw new Error(`An image of ${image.width}x${image.height} pixels has ${image.data.length} bytes.`)
}

function countTokens(chunks: readonly PromptChunk[]): Pick<TokenisedPrompt, 'tokens' | 'imageTokens'> {
  let text = 0
  const media = { image: 0, audio: 0 }
  for (const chunk of chunks) {
    if (chunk.type === 'text') text += chunk.tokens.length
    else media[chunk.encodable.modality] += chunk.encodable.length
  }
  return { tokens: text + media.image + media.audio, imageTokens: media.image }
}

/** A prompt without media. */
export function textPrompt(tokens: Int32Array): TokenisedPrompt {
  return { chunks: [{ type: 'text', tokens }], tokens: tokens.length, imageTokens: 0, audioTokens: 0, close() {} }
}
