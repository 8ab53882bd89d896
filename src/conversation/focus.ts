import { ApiError, internalError } from '../lib/errors.ts'
import { type GridRegion, isRegion, type RgbImage } from '../media/index.ts'
import type { PromptSource } from './prompt/prompt.ts'
import { MessageCollector, type ReplyEvent, type ReplyFinish, type ReplyMessage, type Usage } from './reply/reply.ts'
import { type ImageContent, isImage, type PlacedMessage, partsOf } from './request/message.ts'
import type { Tool } from './request/tool.ts'

/**
 * The focus tool: the model names a region of a picture and sees it enlarged, before it goes on with its reply. Calls and
 * enlargements are part of the prompt of the next round only; of the reply they are no part.
 */
export interface FocusParts {
  /** What the first round was asked. */
  readonly prompt: PromptSource
  /** Most tokens of the reply over all rounds. */
  readonly maxTokens: number
  /** The pictures of the request by their number among its media. */
  readonly pictures: ReadonlyMap<number, ImageContent>
  /** The next round. Null when there is no room for another token. */
  next(prompt: PromptSource, maxTokens: number): Promise<AsyncIterable<ReplyEvent> | null>
  /** A region of a picture's original. @throws ApiError when it cannot be had. */
  look(picture: ImageContent, region: GridRegion): Promise<RgbImage>
}

/** Of one reply. Whoever has not seen it by then will not see it. */
export const MOST_LOOKS = 6

const PARAM = 'vision_config.internal_tools.focus'

/** As the model is told of it, to the letter as in `training/`; with several pictures it is also told to choose. */
export function focusTool(pictures: number): Tool {
  const asset = pictures > 1 ? ', "asset_idx": {"type": "integer", "description": "number of the picture, from 0"}' : ''
  return {
    name: 'focus',
    description: 'Zoom into a region of the picture.',
    parameters: `{"type": "object", "properties": {"box": {"type": "array", "items": {"type": "integer"}, "description": "left, top, right, bottom on a 0 to 1000 grid"}${asset}}, "required": ["box"]}`,
  }
}

/** As its calls are bound to be. */
export function boundFocusTool(pictures: ReadonlyMap<number, ImageContent>): Tool {
  const parameters = {
    type: 'object',
    properties: {
      box: {
        type: 'array',
        items: { type: 'integer', minimum: 0, maximum: 1000 },
        minItems: 4,
        maxItems: 4,
      },
      ...(pictures.size > 1 ? { asset_idx: { type: 'integer', enum: [...pictures.keys()] } } : {}),
    },
    required: ['box'],
    additionalProperties: false,
  }
  return { name: 'focus', description: null, parameters: JSON.stringify(parameters) }
}

/** The pictures of a conversation by their number among all its media. */
export function picturesOf(messages: readonly PlacedMessage[]): Map<number, ImageContent> {
  const media = messages.flatMap((placed) => [...partsOf(placed)]).filter(({ part }) => part.type !== 'text')
  return new Map(media.flatMap(({ part }, index) => (isImage(part) ? [[index, part] as const] : [])))
}

/** The reply of all rounds as one. */
export async function* focusedReply(
  first: AsyncIterable<ReplyEvent>,
  parts: FocusParts,
): AsyncGenerator<ReplyEvent, void, void> {
  let prompt = parts.prompt
  let round: AsyncIterable<ReplyEvent> | null = first
  let usage: Usage | null = null
  let hasText = false
  for (let looks = 0; ; looks++) {
    const said = new MessageCollector()
    let finish: ReplyFinish | null = null
    for await (const event of round) {
      if (event.type === 'finish') {
        finish = event
        break
      }
      said.add(event)
      // What follows a call was written without having seen anything.
      const called = said.message.toolCalls.length > 0
      if (called || event.type === 'tool_call' || event.type === 'tool_arguments') continue
      if (event.type === 'text') {
        if (looks > 0 && hasText && said.message.text === event.text) yield { type: 'text', text: '\n' }
        hasText = true
      }
      yield event
    }
    if (finish === null) throw internalError(new Error('A round ended without a finish'))
    usage = sumOf(usage, finish.usage)
    const end = (reason: ReplyFinish['reason']): ReplyFinish => ({ type: 'finish', reason, usage: usage! })
    if (finish.reason !== 'tool_calls') return yield end(finish.reason)
    if (looks === MOST_LOOKS) return yield end('tool_limit')

    const seen = await lookAt(said.message, parts)
    if (seen === null) return yield end('tool_error')
    prompt = withLook(prompt, said.message, seen)
    const left = parts.maxTokens - usage.completionTokens
    round = left > 0 ? await parts.next(prompt, left) : null
    if (round === null) return yield end('length')
  }
}

/** Every token counts once: what was written in one round and read in the next is part of the completion. */
function sumOf(before: Usage | null, { promptTokens, completionTokens, audioTokens }: Usage): Usage {
  const written = before?.completionTokens ?? 0
  return { promptTokens: promptTokens - written, completionTokens: written + completionTokens, audioTokens }
}

/** Null when the call means no region of a picture, or that cannot be had. */
async function lookAt({ toolCalls }: ReplyMessage, { pictures, look }: FocusParts): Promise<RgbImage | null> {
  const call = readCall(toolCalls[0]!.arguments, pictures)
  if (call === null) return null
  try {
    return await look(call.picture, call.region)
  } catch (error) {
    // The picture was good when the request came: that it cannot be had any more is the tool's failure.
    if (error instanceof ApiError && error.status === 400) return null
    throw error
  }
}

function readCall(
  text: string,
  pictures: ReadonlyMap<number, ImageContent>,
): { readonly picture: ImageContent; readonly region: GridRegion } | null {
  let values: { readonly box?: unknown; readonly asset_idx?: unknown }
  try {
    values = JSON.parse(text)
  } catch {
    return null
  }
  const { box, asset_idx: asset = Math.max(...pictures.keys()) } = values
  const picture = typeof asset === 'number' ? pictures.get(asset) : undefined
  if (!picture || !Array.isArray(box) || box.length !== 4 || !box.every(Number.isFinite)) return null
  const [x1, y1, x2, y2] = box as [number, number, number, number]
  const region = { left: Math.min(x1, x2), top: Math.min(y1, y2), right: Math.max(x1, x2), bottom: Math.max(y1, y2) }
  return isRegion(region) ? { picture, region } : null
}

/** The conversation with the call and what came of it. */
function withLook(prompt: PromptSource, said: ReplyMessage, seen: RgbImage): PromptSource {
  const picture: ImageContent = { type: 'image_url', image_url: { url: '' } }
  const [call] = said.toolCalls
  const { id, name } = call!
  return {
    ...prompt,
    media: new Map([...prompt.media, [picture, [{ type: 'image', image: seen }]]]),
    replaysReasoning: true,
    messages: [
      ...prompt.messages,
      {
        param: PARAM,
        message: {
          role: 'assistant',
          content: said.text === '' ? null : said.text,
          reasoning_content: said.reasoning === '' ? null : said.reasoning,
          tool_calls: [{ id, function: { name, arguments: call!.arguments } }],
        },
      },
      { param: PARAM, message: { role: 'tool', tool_call_id: id, content: [picture] } },
    ],
  }
}
