import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Compatibility } from '../../config/compatibility.ts'
import type { ChatRequest, Structure } from '../../conversation/index.ts'
import { invalidRequest } from '../../lib/errors.ts'
import { namesOf } from '../../lib/param.ts'
import type { BodyReader, ReadBody } from '../http/body/body-reader.ts'
import { toReplyOptions } from './reply-options.ts'
import { type ChatRequestBody, chatBody, openAiChatBody } from './wire/chat-request.ts'

/** Reads the body of a chat request. @throws ApiError that names the field at fault. */
export function readChatBody(
  request: FastifyRequest,
  reply: FastifyReply,
  { bodies, compatibility }: { readonly bodies: BodyReader; readonly compatibility: Compatibility },
): Promise<ReadBody<ChatRequestBody>> {
  return bodies.read(request, reply, compatibility === 'openai' ? openAiChatBody : chatBody)
}

/** @throws ApiError for fields that exclude each other. */
export function toChatRequest({ value: body, rawParameters }: ReadBody<ChatRequestBody>): ChatRequest {
  const choice = body.tool_choice ?? 'auto'
  const options = toReplyOptions(body)
  const { seed = null } = body
  return {
    ...options,
    // Clients may send larger numbers than an engine takes.
    ...(seed === null ? {} : { sampling: { ...options.sampling, seed: seed >>> 0 } }),
    messages: body.messages,
    tools: (body.tools ?? []).map(({ function: { name, description = null } }, index) => ({
      name,
      description,
      parameters: rawParameters[index] ?? null,
    })),
    toolUse: {
      choice: typeof choice === 'object' ? { name: choice.function.name } : choice,
      parallel: body.parallel_tool_calls ?? true,
    },
    structure: structureOf(body),
    names: body.response_format?.type === 'json_object' ? OBJECT_SCHEMA : undefined,
    stops: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? []),
    streamed: body.stream === true,
    choices: body.n ?? 1,
  }
}

/** Any object, or what the schema says that other servers take beside `json_object`. */
export function structureOfObject(schema: unknown): Structure {
  return (schema ?? null) === null ? { type: 'json_object' } : { type: 'json_schema', schema }
}

/** Where a schema stands that comes with `json_object`. */
const OBJECT_SCHEMA = namesOf([
  [
    ['response_format', 'json_schema', 'schema'],
    ['response_format', 'schema'],
  ],
])

function structureOf({ regex, response_format: format }: ChatRequestBody): Structure | null {
  if (typeof regex === 'string') {
    if (!format) return { type: 'regex', pattern: regex }
    throw invalidRequest('regex cannot be combined with response_format', 'regex', {
      code: 'conflicting_structured_output_controls',
    })
  }
  if (format?.type === 'json_object') return structureOfObject(format.schema)
  // Without a schema, the reply is any JSON.
  return format?.type === 'json_schema' ? { type: 'json_schema', schema: format.json_schema.schema ?? {} } : null
}
