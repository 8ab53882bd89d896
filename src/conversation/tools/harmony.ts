import { type CallLayout, callConstraint } from './call-layout.ts'
import { REFUSED, type ToolSyntax } from './syntax.ts'

/** Begins the name of a channel. */
export const CHANNEL = '<|channel|>'
/** Ends the header of a message. */
export const MESSAGE = '<|message|>'
const FUNCTION = ' to=functions.'
/** Each ends a message. The last two also end a turn. */
export const ENDS = ['<|end|>', '<|return|>', '<|call|>']

const layout = (before: string): CallLayout => ({
  trigger: before + FUNCTION,
  head: (name) => [`${before}${FUNCTION}${name} <|constrain|>json${MESSAGE}`],
  tail: '',
})
const ANYWHERE = layout('')
const FIRST = layout(`${CHANNEL}commentary`)

/**
 * `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>`: gpt-oss. It writes a reply as messages:
 * thoughts in the channel `analysis`, calls in `commentary`, and the answer in `final`. A call ends its turn.
 */
export const harmony: ToolSyntax = {
  begin: FUNCTION,
  marks: ['<|start|>', CHANNEL, '<|constrain|>', MESSAGE, ...ENDS],
  // Calls are read as messages.
  readCall: () => ({ push: () => REFUSED }),
  constraint: (tools, _, isFirst = false) => callConstraint(isFirst ? FIRST : ANYWHERE, tools, true),
  answer: `${CHANNEL}final${MESSAGE}`,
}
