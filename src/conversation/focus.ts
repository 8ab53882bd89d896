import { ApiError, internalError } from '../lib/errors/errors.ts'
import { parseJsonOr } from '../lib/json/parse-json.ts'
import { type GridRegion, isRegion } from '../media/coordinates.ts'
import type { RgbImage } from '../media/pixels.ts'
import type { PromptSource } from './prompt/prompt.ts'
import { ReplyCollector, type ReplyEvent, type ReplyFinish, type ReplyMessage } from './reply/reply.ts'
import type { Usage } from './reply/usage.ts'
import { type ImageContent, isImage, mediaIn, type PlacedMessage } from './request/message.ts'
import type { Tool } from './request/tool.ts'

/**
 * The focus tool: the model names a region of an image and sees it enlarged before it continues its reply. Calls and
 * enlarged regions are part of the next round's prompt, but not of the reply.
 */
export interface FocusParts {
  /** The prompt of the first round. */
  readonly prompt: PromptSource
  /** The most tokens of the reply over all rounds. */
  readonly maxTokens: number
  /** The images of the request by their index among its media. */
  readonly images: ReadonlyMap<number, ImageContent>
  /** Whether what has been read so far has ended the reply. */
  isStopped(): boolean
  /** Starts the next round; null when the context has no room for another token. */
  next(prompt: PromptSource, maxTokens: number): Promise<AsyncIterable<ReplyEvent> | null>
  /** Loads a region of an original image. @throws ApiError when that fails. */
  zoom(image: ImageContent, region: GridRegion): Promise<RgbImage>
}

/** The most focus calls in one reply. */
const MAX_FOCUS_CALLS = 6

export const FOCUS_PARAM = ['vision_config', 'internal_tools', 'focus']

/**
 * The tool as the prompt describes it, with the exact wording of `training/`. With several images it takes an index.
 */
export function focusTool(images: number): Tool {
  const asset = images > 1 ? ', "asset_idx": {"type": "integer", "description": "number of the picture, from 0"}' : ''
  return {
    name: 'focus',
    description: 'Zoom into a region of the picture.',
    parameters: `{"type": "object", "properties": {"box": {"type": "array", "items": {"type": "integer"}, "description": "left, top, right, bottom on a 0 to 1000 grid"}${asset}}, "required": ["box"]}`,
  }
}

/** The tool with the schema that constrains its calls. */
export function boundFocusTool(images: ReadonlyMap<number, ImageContent>): Tool {
  const parameters = {
    type: 'object',
    properties: {
      box: {
        type: 'array',
        items: { type: 'integer', minimum: 0, maximum: 1000 },
        minItems: 4,
        maxItems: 4,
      },
      ...(images.size > 1 ? { asset_idx: { type: 'integer', enum: [...images.keys()] } } : {}),
    },
    required: ['box'],
    additionalProperties: false,
  }
  return { name: 'focus', description: null, parameters: JSON.stringify(parameters) }
}

/** Returns the images of a conversation by their index among all its media. */
export function imagesOf(messages: readonly PlacedMessage[]): Map<number, ImageContent> {
  return new Map(mediaIn(messages).flatMap(({ part }, index) => (isImage(part) ? [[index, part] as const] : [])))
}

/** Joins the replies of all rounds into one. */
export async function* focusedReply(
  first: AsyncIterable<ReplyEvent>,
  parts: FocusParts,
): AsyncGenerator<ReplyEvent, void, void> {
  let prompt = parts.prompt
  let round: AsyncIterable<ReplyEvent> | null = first
  let usage: Usage | null = null
  let hasText = false
  for (let calls = 0; ; calls++) {
    const said = new ReplyCollector()
    let finish: ReplyFinish | null = null
    for await (const event of round) {
      if (event.type === 'finish') {
        finish = event
        break
      }
      said.add(event)
      // Drop what follows a call: the model wrote it before it saw the region.
      const called = said.message.toolCalls.length > 0
      if (called || event.type === 'tool_call' || event.type === 'tool_arguments') continue
      if (event.type === 'text') {
        if (calls > 0 && hasText && said.message.text === event.text) yield { type: 'text', text: '\n' }
        hasText = true
      }
      yield event
    }
    if (finish === null) throw internalError(new Error('A round ended without a finish event'))
    usage = sumOf(usage, finish.usage)
    const end = (reason: ReplyFinish['reason']): ReplyFinish => ({ type: 'finish', reason, usage: usage! })
    if (finish.reason !== 'tool_calls' || parts.isStopped()) return yield { ...finish, usage }
    if (calls === MAX_FOCUS_CALLS) return yield end('tool_limit')

    const seen = await zoomIn(said.message, parts)
    if (seen === null) return yield end('tool_error')
    prompt = withRegion(prompt, said.message, seen)
    const left = parts.maxTokens - usage.completionTokens
    round = left > 0 ? await parts.next(prompt, left) : null
    if (round === null) return yield end('length')
  }
}

/** Counts every token once: what one round generated and the next one reads counts as completion. */
function sumOf(before: Usage | null, { promptTokens, completionTokens, reasoningTokens, ...media }: Usage): Usage {
  const written = before?.completionTokens ?? 0
  return {
    promptTokens: promptTokens - written,
    completionTokens: written + completionTokens,
    reasoningTokens: (before?.reasoningTokens ?? 0) + reasoningTokens,
    ...media,
  }
}

/** Loads the region that the call names; null when the call is invalid or loading fails. */
async function zoomIn({ toolCalls }: ReplyMessage, { images, zoom }: FocusParts): Promise<RgbImage | null> {
  const call = readCall(toolCalls[0]!.arguments, images)
  if (call === null) return null
  try {
    return await zoom(call.image, call.region)
  } catch (error) {
    // The image was valid when the request arrived, so this is a failure of the tool, not of the request.
    if (error instanceof ApiError && error.status === 400) return null
    throw error
  }
}

function readCall(
  text: string,
  images: ReadonlyMap<number, ImageContent>,
): { readonly image: ImageContent; readonly region: GridRegion } | null {
  const values = parseJsonOr(text, null) as { readonly box?: unknown; readonly asset_idx?: unknown } | null
  const { box, asset_idx: asset = Math.max(...images.keys()) } = values ?? {}
  const image = typeof asset === 'number' ? images.get(asset) : undefined
  if (!image || !Array.isArray(box) || box.length !== 4 || !box.every(Number.isFinite)) return null
  const [x1, y1, x2, y2] = box as [number, number, number, number]
  const region = { left: Math.min(x1, x2), top: Math.min(y1, y2), right: Math.max(x1, x2), bottom: Math.max(y1, y2) }
  return isRegion(region) ? { image, region } : null
}

/** Appends the call and the enlarged region to the conversation. */
function withRegion(prompt: PromptSource, said: ReplyMessage, seen: RgbImage): PromptSource {
  const image: ImageContent = { type: 'image_url', image_url: { url: '' } }
  const [call] = said.toolCalls
  const { id, name } = call!
  return {
    ...prompt,
    media: new Map([...prompt.media, [image, { parts: [{ type: 'image', image: seen }] }]]),
    replaysReasoning: true,
    messages: [
      ...prompt.messages,
      {
        param: FOCUS_PARAM,
        message: {
          role: 'assistant',
          content: said.text === '' ? null : said.text,
          reasoning_content: said.reasoning === '' ? null : said.reasoning,
          tool_calls: [{ id, function: { name, arguments: call!.arguments } }],
        },
      },
      { param: FOCUS_PARAM, message: { role: 'tool', tool_call_id: id, content: [image] } },
    ],
  }
}
