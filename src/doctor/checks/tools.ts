import type { ChatRequest } from '../../conversation/request/chat-request.ts'
import { ApiError } from '../../lib/errors/errors.ts'
import { parseRecord } from '../../lib/json/parse-json.ts'
import { type Finding, quoted } from '../finding.ts'
import type { Subject } from '../subject.ts'

const CITY = 'Paris'
const TOOL = {
  name: 'get_weather',
  description: 'Get the current weather of a city.',
  parameters: JSON.stringify({
    type: 'object',
    properties: { city: { type: 'string', maxLength: 30 } },
    required: ['city'],
    additionalProperties: false,
  }),
}

/** A call that a grammar forces, which shows the mechanism, and one that is the model's own choice. */
export async function checkTools(subject: Subject): Promise<Finding[]> {
  const { capabilities } = subject.model.served
  if (!capabilities.includes('tool_calling')) {
    return [{ check: 'tool calls', verdict: 'skipped', finding: 'the card does not promise tool_calling' }]
  }
  const call = async (choice: ChatRequest['toolUse']['choice']) => {
    const messages = [{ role: 'user', content: `What is the weather in ${CITY}?` } as const]
    const { toolCalls, text, finish } = await subject.chat({
      messages,
      tools: [TOOL],
      toolUse: { choice, parallel: false },
    })
    return { call: toolCalls[0] ?? null, text, isCut: finish.reason === 'length' }
  }
  return [await forced(call), await chosen(call)]
}

type Call = (choice: ChatRequest['toolUse']['choice']) => Promise<{
  readonly call: { readonly name: string; readonly arguments: string } | null
  readonly text: string
  /** Whether the reply was cut off at its token limit. */
  readonly isCut: boolean
}>

async function forced(call: Call): Promise<Finding> {
  const check = 'forced call'
  const reply = await call('required').catch((error: unknown) => error as Error)
  // An engine that cannot constrain its model to a call says so.
  if (reply instanceof ApiError && reply.param === 'tools') return { check, verdict: 'skipped', finding: reply.message }
  if (reply instanceof Error) throw reply
  const { call: made, text, isCut } = reply
  if (isCut) {
    const finding = `The call did not come to an end: ${quoted(made?.arguments ?? text)}.`
    return { check, verdict: 'warning', finding }
  }
  if (made === null) return { check, verdict: 'failed', finding: `No call could be read in ${quoted(text)}.` }
  const city = cityIn(made.arguments)
  const written = `${made.name}, ${quoted(made.arguments)}`
  return city === null
    ? { check, verdict: 'failed', finding: `The call does not follow its schema: ${written}.` }
    : { check, verdict: 'ok', finding: `The grammar makes a call that is read: ${written}.` }
}

async function chosen(call: Call): Promise<Finding> {
  const check = 'chosen call'
  const { call: made, text } = await call('auto')
  if (made === null) {
    return { check, verdict: 'warning', finding: `The model does not call tools by itself: it wrote ${quoted(text)}.` }
  }
  const written = `${made.name}, ${quoted(made.arguments)}`
  return cityIn(made.arguments)?.includes(CITY)
    ? { check, verdict: 'ok', finding: `The model calls the function by itself: ${written}.` }
    : { check, verdict: 'warning', finding: `The model calls the function with something else: ${written}.` }
}

function cityIn(json: string): string | null {
  const city = parseRecord(json)?.city
  return typeof city === 'string' ? city : null
}
