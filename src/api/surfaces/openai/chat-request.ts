import type { Compatibility } from '../../../config/compatibility.ts'
import type { ChatRequest, Structure } from '../../../conversation/request/chat-request.ts'
import type { ContentPart, MediaUrl, Message } from '../../../conversation/request/message.ts'
import type { Tool } from '../../../conversation/request/tool.ts'
import { escapePattern } from '../../../grounding/dialect.ts'
import { invalidRequest, say } from '../../../lib/errors/errors.ts'
import { type Names, namesOf, type Path } from '../../../lib/errors/param.ts'

import type { SamplingWish } from '../../../media/decoding/process/protocol.ts'
import { HEAD_BYTES, kindOfType, type MediaType, mediaType } from '../../../media/media-type.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { toReplyOptions } from './reply-options.ts'
import type { ChatRequestBody } from './wire/chat-request.ts'

/** @param canThink whether the model can. @throws ApiError for fields that exclude each other. */
export function toChatRequest(
  { value: body, rawParameters }: ReadBody<ChatRequestBody>,
  compatibility: Compatibility,
  canThink: boolean,
): ChatRequest {
  const tools = toolsOf(body)
  const options = toReplyOptions(body)
  const { enable_thinking, thinking } = body.chat_template_kwargs ?? {}
  // A template ignores variables that it does not know.
  const enableThinking = options.vision.enableThinking ?? (canThink ? (enable_thinking ?? thinking ?? null) : null)
  return {
    ...options,
    vision: { ...options.vision, enableThinking, videoSampling: samplingOf(body) },
    messages: compatibility === 'openai' ? body.messages.map(withOwnParts) : body.messages,
    tools: toTools(tools, rawParameters),
    toolUse: { choice: choiceOf(body), parallel: body.parallel_tool_calls ?? true },
    structure: structureOf(body),
    names: paramNames(
      body,
      tools.map(({ index }) => index),
    ),
    stops: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? []),
    streamed: body.stream === true,
    choices: body.n ?? 1,
  }
}

/** In vLLM, the processor samples the frames that reading has taken. The lowest rate and number of frames count. */
function samplingOf({ media_io_kwargs, mm_processor_kwargs: processing }: ChatRequestBody): SamplingWish | undefined {
  const reading = media_io_kwargs?.video
  const sampling = processing?.do_sample_frames ? processing : null
  const framesPerSecond = lowest(reading?.fps, sampling?.fps)
  const frames = lowest(reading?.num_frames, sampling?.num_frames)
  const takesAll = (sampling ?? reading)?.num_frames === -1
  return framesPerSecond === undefined && frames === undefined && !takesAll ? undefined : { framesPerSecond, frames }
}

/** Zero and -1 stand for no limit. */
function lowest(...limits: readonly (number | null | undefined)[]): number | undefined {
  const set = limits.flatMap((limit) => (limit && limit > 0 ? [limit] : []))
  return set.length === 0 ? undefined : Math.min(...set)
}

/** Makes videos and audio separate parts. Some clients, such as Dify, send their data URLs as images. */
function withOwnParts(message: Message): Message {
  if (message.role !== 'user' || typeof message.content === 'string') return message
  return { ...message, content: message.content.map(withOwnType) }
}

function withOwnType(part: ContentPart): ContentPart {
  if (part.type !== 'image_url') return part
  const { url } = part.image_url
  if (typeof url === 'string' && !/^\s*data:/i.test(url)) return part
  const kind = kindOfType(typeOfData(url) ?? '')
  if (kind === 'video') return { type: 'video_url', video_url: { url } }
  return kind === 'audio' ? { type: 'audio_url', audio_url: { url } } : part
}

/** The type that the beginning of base64 or of a data URL shows. Large data is already decoded. */
export function typeOfData(data: MediaUrl): MediaType | null {
  const bytes =
    typeof data === 'string'
      ? Buffer.from(data.slice(0, 2 * HEAD_BYTES).replace(/^\s*data:[^,]{0,100},/i, ''), 'base64')
      : 'bytes' in data && data.bytes
  return bytes === false ? null : mediaType(bytes)
}

/** A function, and its index among the tools of the request. */
export interface PlacedTool {
  readonly tool: { readonly name: string; readonly description?: string | null | undefined }
  readonly index: number
}

/** Converts functions to the conversation's tools. @param rawParameters of each tool of the request, as the client wrote them. */
export function toTools(functions: readonly PlacedTool[], rawParameters: readonly (string | null)[]): Tool[] {
  return functions.map(({ tool: { name, description = null }, index }) => {
    return { name, description, parameters: rawParameters[index] ?? null }
  })
}

/** Returns the functions that the model may call. @throws ApiError 400 for an unknown name. */
function toolsOf({ tools, tool_choice: choice }: ChatRequestBody): PlacedTool[] {
  const all = (tools ?? []).map(({ function: tool }, index) => ({ tool, index }))
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return all
  const names = choice.allowed_tools.tools.map((allowed) => allowed.function.name)
  return allowedOf(all, names, [...CHOICE, 'allowed_tools', 'tools'])
}

const CHOICE = ['tool_choice']
const SCHEMA = ['response_format', 'json_schema', 'schema']

/**
 * Returns the functions with the names that a request allows.
 * @param names null for an entry that is not a function.
 * @param at the place of the names in the request.
 * @throws ApiError 400 for a name that no function has.
 */
export function allowedOf<Placed extends PlacedTool>(
  functions: readonly Placed[],
  names: readonly (string | null)[],
  at: Path,
): Placed[] {
  const known = new Set<string | null>(functions.map(({ tool }) => tool.name))
  const unknown = names.findIndex((name) => name !== null && !known.has(name))
  if (unknown !== -1) {
    const name = names[unknown]!.slice(0, 100)
    throw invalidRequest(say`${CHOICE} allows '${name}', which is not in ${['tools']}`, [...at, unknown])
  }
  return functions.filter(({ tool }) => names.includes(tool.name))
}

function choiceOf({ tool_choice: choice }: ChatRequestBody): ChatRequest['toolUse']['choice'] {
  if (typeof choice !== 'object' || choice === null) return choice ?? 'auto'
  return choice.type === 'function' ? { name: choice.function.name } : choice.allowed_tools.mode
}

/** @param tools the index in the request of each tool that the model may call. */
function paramNames(body: ChatRequestBody, tools: readonly number[]): Names {
  const names = structureNames(body)
  return (path) => {
    const [list, index, key, at, ...rest] = path
    if (list === 'tools' && typeof index === 'number') return [list, tools[index]!, ...path.slice(2)]
    if (list === 'messages' && key === 'content' && typeof at === 'number' && rest.length > 0) {
      const part: object | string | undefined = body.messages[index as number]?.content?.[at]
      if (typeof part === 'object' && 'sent' in part) return [list, index!, key, at, part.sent as string]
      // The client's own name for a part whose media type may have changed.
      if (typeof part === 'object' && 'image_url' in part) return [list, index!, key, at, 'image_url', ...rest.slice(1)]
    }
    return names(path)
  }
}

/** The client's names of the parameters that request a structure. */
export function structureNames({ response_format: format, structured_outputs: outputs }: StructureBody): Names {
  if (outputs) {
    const field = (kind: string) => ['structured_outputs', kind]
    return namesOf([
      [SCHEMA, field('json')],
      [['response_format'], field((outputs.json ?? null) === null ? 'json_object' : 'json')],
      [['regex'], field(outputs.choice ? 'choice' : 'regex')],
    ])
  }
  if (format?.type !== 'json_object') return (path) => path
  const field = (format.schema ?? null) === null ? 'value' : 'schema'
  return namesOf([[SCHEMA, ['response_format', field]]])
}

type StructureBody = Pick<ChatRequestBody, 'regex' | 'response_format' | 'structured_outputs'>

/** The structure of `json_object`: any object, or the schema that other servers accept with it. */
export function structureOfObject(schema: unknown): Structure {
  return (schema ?? null) === null ? { type: 'json_object' } : { type: 'json_schema', schema }
}

/** @throws ApiError 400 for several structures. */
export function structureOf({
  regex,
  response_format: format,
  structured_outputs: outputs,
}: StructureBody): Structure | null {
  const controls = Object.entries({ structured_outputs: outputs, regex, response_format: format })
  const [first, second] = controls.flatMap(([name, value]) => ((value ?? null) === null ? [] : [name]))
  if (first !== undefined && second !== undefined) {
    throw invalidRequest(`${first} cannot be combined with ${second}`, first, {
      code: 'conflicting_structured_output_controls',
    })
  }
  if (outputs) {
    const pattern = outputs.choice ? `(?:${outputs.choice.map(escapePattern).join('|')})` : outputs.regex
    return typeof pattern === 'string' ? { type: 'regex', pattern } : structureOfObject(outputs.json)
  }
  if (typeof regex === 'string') return { type: 'regex', pattern: regex }
  if (format?.type === 'json_object') return structureOfObject(format.schema ?? format.value)
  // Without a schema, the reply is any JSON.
  return format?.type === 'json_schema' ? { type: 'json_schema', schema: format.json_schema.schema ?? {} } : null
}
