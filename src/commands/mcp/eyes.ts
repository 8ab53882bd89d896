import sharp from 'sharp'
import type { Detection, LookoutClient } from '../../client/index.ts'
import { drawMarks, type Mark } from '../../drawing/index.ts'
import { isPicture, MediaError, mediaPart, sendMedia } from '../asking/media.ts'
import type { AllowedMedia, Source } from './allowed-media.ts'

/** Agents show drawings to models, which take no more than this of them. */
const LONGEST_SIDE = 1568

export interface Asked {
  readonly client: LookoutClient
  readonly model: string
}

export interface EyesOptions {
  readonly media: AllowedMedia
  /** Where questions are answered; asked for before each, so that it may be opened with the first. */
  readonly place: () => Promise<Asked>
}

export interface Found {
  readonly label: string
  readonly box?: { readonly left: number; readonly top: number; readonly right: number; readonly bottom: number }
  readonly point?: { readonly x: number; readonly y: number }
}

/** What the tools do: they ask a server about media, as the commands of the same names do. */
export class Eyes {
  readonly #media: AllowedMedia
  readonly #place: EyesOptions['place']

  constructor({ media, place }: EyesOptions) {
    this.#media = media
    this.#place = place
  }

  async look(question: string, names: readonly string[]): Promise<{ answer: string; complete: boolean }> {
    return this.#ask(names, question, {})
  }

  /** @param fields what to read, by name; null for all text as it stands. */
  async read(
    name: string,
    fields: Readonly<Record<string, string>> | null,
  ): Promise<{ text: string; fields: Record<string, string | null> | null; complete: boolean }> {
    if (fields === null) {
      const { answer, complete } = await this.#ask([name], 'Read the text.', {})
      return { text: answer, fields: null, complete }
    }
    const names = Object.keys(fields)
    const list = Object.entries(fields).map(([field, meaning]) => `- ${field}: ${meaning}`)
    const question = `Read the text. Then fill in these fields, with null for what is not there:\n${list.join('\n')}`
    const schema = {
      type: 'object',
      properties: Object.fromEntries(names.map((field) => [field, { type: ['string', 'null'], maxLength: 2000 }])),
      required: names,
      additionalProperties: false,
    }
    const response_format = { type: 'json_schema', json_schema: { name: 'fields', schema } }
    const { answer, complete } = await this.#ask([name], question, { response_format })
    return { text: answer, fields: complete ? JSON.parse(answer) : null, complete }
  }

  async detect(
    name: string,
    categories: readonly string[],
    { points, draws }: { readonly points: boolean; readonly draws: boolean },
  ): Promise<{ detections: Found[]; complete: boolean; drawing: Buffer | null }> {
    const { client, model } = await this.#place()
    const source = await this.#media.open(name)
    const picture = source.type === 'medium' && isPicture(source.medium) ? source.medium : null
    if (source.type === 'medium' ? picture === null : source.kind !== 'image') {
      throw new MediaError(`${name} is not a picture`)
    }
    if (draws && picture === null)
      throw new MediaError('draw needs a file: a picture at an address is not fetched here')
    await using uploads = new AsyncDisposableStack()
    const where = await this.#send(source, client, uploads)
    const { detections, finish_reason } = await client.detect({
      model,
      media: {
        type: 'image',
        image_url: 'url' in where ? where.url : `${client.url}/v1/files/${where.fileId}/content`,
      },
      ...(categories.length === 0 ? {} : { categories }),
      config: { output: points ? 'point' : 'box' },
    })
    const drawing = draws && picture !== null ? await draw(await picture.bytes(), detections) : null
    return { detections: detections.map(toFound), complete: finish_reason === 'complete', drawing }
  }

  async decide(names: readonly string[], questions: readonly object[]): Promise<readonly object[]> {
    const { client, model } = await this.#place()
    await using uploads = new AsyncDisposableStack()
    const content = await this.#parts(names, client, uploads)
    return client.decide({ model, input: [{ role: 'user', content }], questions })
  }

  async #ask(
    names: readonly string[],
    question: string,
    fields: object,
  ): Promise<{ answer: string; complete: boolean }> {
    const { client, model } = await this.#place()
    await using uploads = new AsyncDisposableStack()
    const content = [...(await this.#parts(names, client, uploads)), { type: 'text', text: question }]
    const { content: answer, finishReason } = await client.chat(
      { model, messages: [{ role: 'user', content }], ...fields },
      () => {},
    )
    return { answer, complete: finishReason !== 'length' }
  }

  async #parts(names: readonly string[], client: LookoutClient, uploads: AsyncDisposableStack): Promise<object[]> {
    const sources: Source[] = []
    for (const name of names) sources.push(await this.#media.open(name))
    const media = sources.flatMap((source) => (source.type === 'medium' ? [source.medium] : []))
    const sent = [...(await sendMedia(media, client, uploads))]
    return sources.map((source) =>
      source.type === 'medium'
        ? mediaPart(source.medium, sent.shift()!)
        : { type: `${source.kind}_url`, [`${source.kind}_url`]: { url: source.url } },
    )
  }

  async #send(
    source: Source,
    client: LookoutClient,
    uploads: AsyncDisposableStack,
  ): Promise<{ readonly url: string } | { readonly fileId: string }> {
    if (source.type === 'address') return { url: source.url }
    const [where] = await sendMedia([source.medium], client, uploads)
    return where!
  }
}

/** With the boxes, small enough for an agent's model, and upright. */
async function draw(bytes: Uint8Array, detections: readonly Detection[]): Promise<Buffer> {
  const drawing = await drawMarks(bytes, detections.map(toMark), 'png')
  return sharp(drawing)
    .resize({ width: LONGEST_SIDE, height: LONGEST_SIDE, fit: 'inside', withoutEnlargement: true })
    .flatten({ background: '#ffffff' })
    .jpeg({ quality: 85 })
    .toBuffer()
}

function toMark({ mention, point, point_box: box }: Detection): Mark {
  return box
    ? { label: mention, kind: 'box', points: [box.top_left, box.bottom_right] }
    : { label: mention, kind: 'point', points: [point!] }
}

function toFound({ mention: label, point, point_box: box }: Detection): Found {
  if (!box) return { label, point: point! }
  const { top_left: from, bottom_right: to } = box
  return { label, box: { left: from.x, top: from.y, right: to.x, bottom: to.y } }
}
