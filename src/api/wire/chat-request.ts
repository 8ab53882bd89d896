import { z } from 'zod'
import { message } from './messages.ts'
import { replyOptions } from './reply-options.ts'
import { toolNameIssue } from './tool-names.ts'

const jsonObject = z.record(z.string(), z.unknown())

const tool = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string().min(1),
    description: z.string().nullish(),
    parameters: jsonObject.nullish(),
    strict: z.boolean().nullish(),
  }),
})

const tools = z.array(tool).superRefine((tools, context) => {
  const issue = toolNameIssue(tools.map((tool) => tool.function.name))
  if (!issue) return
  const { index, message, code } = issue
  context.addIssue({ code: 'custom', path: [index, 'function', 'name'], message, params: { code } })
})

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.object({ type: z.literal('function'), function: z.object({ name: z.string().min(1) }) }),
])

const responseFormat = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text') }),
  z.object({
    type: z.literal('json_schema'),
    json_schema: z.object({
      name: z.string().min(1),
      schema: z.unknown(),
      strict: z.boolean().nullish(),
    }),
  }),
])

/** Body of `POST /v1/chat/completions`. Unknown keys are dropped. */
export const chatRequest = z.object({
  messages: z.array(message).min(1),
  model: z.string(),
  ...replyOptions,
  n: z.int().min(1).max(1, 'only 1 is supported').nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  regex: z.string().min(1).nullish(),
  response_format: responseFormat.nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  tool_choice: toolChoice.nullish(),
  tools: tools.nullish(),
})

export type ChatRequestBody = z.output<typeof chatRequest>
