import type { DecisionAnswer, Detection } from '../../client/answers.ts'
import type { LookoutClient } from '../../client/client.ts'
import { drawMarks } from '../../drawing/draw.ts'
import { isPicture, MediaError, namedFault, type SentMedium, sendMedia, urlPart } from '../asking/media.ts'
import { followWhole } from '../detecting/clip.ts'
import { toMark } from '../detecting/results.ts'
import type { Source } from './allowed-media.ts'
import type { Call } from './call.ts'
import { shrink } from './shown-picture.ts'

export interface Asked {
  readonly client: LookoutClient
  readonly model: string
}

/** Gets the server to ask. Called for each question, so that it can be opened at the first. */
export type Place = (call: Call) => Promise<Asked>

export interface Found {
  readonly label: string
  readonly box?: { readonly left: number; readonly top: number; readonly right: number; readonly bottom: number }
  readonly point?: { readonly x: number; readonly y: number }
  readonly confidence?: number
  /** In a video: the same for an object in all frames, from 1. */
  readonly track?: number
  readonly seconds?: number
}

interface DetectOptions {
  readonly points: boolean
  readonly draws: boolean
  readonly least: number | null
  readonly tiles: boolean
}

/** Implements the tools: they ask a server about media, like the commands of the same names. */
export class Eyes {
  readonly #place: Place
  readonly #calls = new Set<Promise<unknown>>()

  constructor(place: Place) {
    this.#place = place
  }

  /** Resolves when no call is running and all of their files are removed from the server. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#calls)
  }

  async look(call: Call, question: string, names: readonly string[]): Promise<{ answer: string; complete: boolean }> {
    return this.#ask(call, names, question, {})
  }

  /** @param fields the values to read, by name; null for all text as written. */
  async read(
    call: Call,
    name: string,
    fields: Readonly<Record<string, string>> | null,
  ): Promise<{ text: string; fields: Record<string, string | null> | null; complete: boolean }> {
    if (fields === null) {
      const { answer, complete } = await this.#ask(call, [name], 'Read the text.', {})
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
    const { answer, complete } = await this.#ask(call, [name], question, { response_format })
    return { text: answer, fields: complete ? JSON.parse(answer) : null, complete }
  }

  async detect(
    call: Call,
    name: string,
    categories: readonly string[],
    how: DetectOptions,
  ): Promise<{ detections: Found[]; complete: boolean; drawing: Buffer | null }> {
    const source = await call.media.open(name, call)
    const kind = source.type === 'medium' ? source.medium.kind : source.kind
    if (kind === 'video') return this.#follow(call, name, source, categories, how)
    const { points, draws, least, tiles } = how
    const picture = source.type === 'medium' && isPicture(source.medium) ? source.medium : null
    if (kind !== 'image') throw new MediaError(`${name} is not a picture or a video`)
    if (draws && picture === null)
      throw new MediaError('draw needs a file: a picture at an address is not fetched here')
    const { detections, finish_reason } = await this.#at(call, [name], async ({ client, model }, uploads) => {
      const [sent] = await sendSources([source], client, uploads, call.signal)
      call.say('Waiting for the answer')
      const body = {
        model,
        media: { type: 'image', image_url: sent!.url },
        ...(categories.length === 0 ? {} : { categories }),
        config: {
          output: points ? 'point' : 'box',
          ...(least === null ? {} : { confidence: true, min_confidence: least }),
          ...(tiles ? { tiles: 'auto' } : {}),
        },
      }
      return client.detect(body, call.signal)
    })
    const drawing =
      draws && picture !== null
        ? await shrink(await drawMarks(await picture.shown(), detections.map(toMark), 'png'))
        : null
    return { detections: detections.map(toFound), complete: finish_reason === 'complete', drawing }
  }

  async #follow(
    call: Call,
    name: string,
    source: Source,
    categories: readonly string[],
    { points, draws, least, tiles }: DetectOptions,
  ): Promise<{ detections: Found[]; complete: boolean; drawing: null }> {
    if (draws || least !== null || tiles) {
      throw new MediaError('draw, min_confidence and tiles are for pictures, and this is a video')
    }
    return this.#at(call, [name], async ({ client, model }, uploads) => {
      const [sent] = await sendSources([source], client, uploads, call.signal)
      call.say('Following objects')
      const config = { output: points ? 'point' : 'box' }
      const request = { model, ...(categories.length === 0 ? {} : { categories }), config }
      const followed = await followWhole(request, sent!.url, {
        ask: (body) => client.detect(body, call.signal),
        onLeft: (left) => call.say(`${left} frames are left`),
      })
      const complete = followed.finish_reason === 'complete'
      return { detections: followed.detections.map(toFound), complete, drawing: null }
    })
  }

  async decide(call: Call, names: readonly string[], questions: readonly object[]): Promise<readonly DecisionAnswer[]> {
    const sources = await opened(call, names)
    return this.#at(call, names, async ({ client, model }, uploads) => {
      const content = (await sendSources(sources, client, uploads, call.signal)).map(({ part }) => part)
      call.say('Waiting for the answers')
      return client.decide({ model, input: [{ role: 'user', content }], questions }, call.signal)
    })
  }

  async #ask(
    call: Call,
    names: readonly string[],
    question: string,
    fields: object,
  ): Promise<{ answer: string; complete: boolean }> {
    const sources = await opened(call, names)
    return this.#at(call, names, async ({ client, model }, uploads) => {
      const sent = await sendSources(sources, client, uploads, call.signal)
      call.say('Waiting for the answer')
      let length = 0
      const content = [...sent.map(({ part }) => part), { type: 'text', text: question }]
      const { content: answer, finishReason } = await client.chat(
        { model, messages: [{ role: 'user', content }], ...fields },
        (piece) => {
          length += piece.content.length
          if (length > 0) call.say(`${length} characters so far`)
        },
        call.signal,
      )
      return { answer, complete: finishReason !== 'length' }
    })
  }

  /**
   * Runs work that needs a model. Files that it stores on the server are removed, even if the call is cancelled.
   * @throws MediaError for a faulty medium, by the name that the agent gave it.
   */
  async #at<Result>(
    call: Call,
    names: readonly string[],
    work: (asked: Asked, uploads: AsyncDisposableStack) => Promise<Result>,
  ): Promise<Result> {
    const run = async () => {
      const asked = await this.#place(call)
      call.signal.throwIfAborted()
      await using uploads = new AsyncDisposableStack()
      // Notes about parts that the server leaves out belong in the answer: an agent reads no log.
      const client = asked.client.noting((note) => call.notes.push(note))
      return await work({ ...asked, client }, uploads)
    }
    const done = run()
    this.#calls.add(done)
    try {
      return await done
    } catch (error) {
      throw namedFault(error, names)
    } finally {
      this.#calls.delete(done)
    }
  }
}

async function sendSources(
  sources: readonly Source[],
  client: LookoutClient,
  uploads: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<SentMedium[]> {
  const media = sources.flatMap((source) => (source.type === 'medium' ? [source.medium] : []))
  const sent = await sendMedia(media, client, uploads, signal)
  return sources.map((source) =>
    source.type === 'medium' ? sent.shift()! : { url: source.url, part: urlPart(source.kind, source.url, source) },
  )
}

async function opened(call: Call, names: readonly string[]): Promise<Source[]> {
  const sources: Source[] = []
  for (const name of names) sources.push(await call.media.open(name, call))
  return sources
}

function toFound({ mention: label, point, point_box: box, confidence, track, timestamp }: Detection): Found {
  const more = {
    ...(confidence === undefined ? {} : { confidence }),
    ...(track === undefined ? {} : { track, seconds: timestamp! }),
  }
  if (!box) return { label, point: point!, ...more }
  const { top_left: from, bottom_right: to } = box
  return { label, box: { left: from.x, top: from.y, right: to.x, bottom: to.y }, ...more }
}
