import { buildPrompt } from '../../conversation/prompt/prompt.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import { ApiError } from '../../lib/errors/errors.ts'
import type { Exhibit } from '../exhibit.ts'
import type { Finding } from '../finding.ts'
import { ORGANISATION, type Subject } from '../subject.ts'

/** Marks that templates write around turns, in all model families. */
const MARK = /<[^<>\s]+>|\[\/?[A-Z_]+\]/g

type Message = Parameters<typeof buildPrompt>[0]['messages'][number]['message']

interface Conversation {
  readonly name: string
  readonly messages: readonly Message[]
  /** Whether a model may lack it: many templates accept no system text. */
  readonly optional: boolean
}

const user = (content: string): Message => ({ role: 'user', content })
const IMAGE = { type: 'image_url', image_url: { url: '' } } as const
const CONVERSATIONS: readonly Conversation[] = [
  { name: 'one turn', messages: [user('first')], optional: false },
  {
    name: 'several turns',
    messages: [user('first'), { role: 'assistant', content: 'second' }, user('third')],
    optional: false,
  },
  { name: 'a system text', messages: [{ role: 'system', content: 'first' }, user('second')], optional: true },
]
/** Some templates misbehave only in conversations of a certain length. */
const LENGTHS = [5, 7, 9, 11, 13, 15, 21, 41]
const LONG: readonly Conversation[] = LENGTHS.map((turns) => ({
  name: `${turns} turns`,
  messages: Array.from({ length: turns }, (_, i) =>
    i % 2 === 0 ? user(`question ${i}`) : { role: 'assistant', content: `answer ${i}` },
  ),
  optional: false,
}))
const WITH_IMAGE: Conversation = {
  name: 'an image',
  messages: [{ role: 'user', content: [IMAGE, { type: 'text', text: 'first' }] }],
  optional: false,
}

/** Whether the chat template renders conversations, with marks that the vocabulary has and clients cannot write. */
export async function checkTemplate(subject: Subject, exhibits: readonly Exhibit[]): Promise<Finding> {
  const check = 'template'
  const source = templateSource(subject)
  const image = exhibits[0]?.image ?? null
  const conversations = [...CONVERSATIONS, ...(image === null ? [] : [WITH_IMAGE])]
  const problems: string[] = []
  const failures: string[] = []
  for (const { name, messages, optional } of [...conversations, ...LONG]) {
    const problem = await problemOf(subject, messages, image === null ? [] : [{ type: 'image', image: image.image }])
    if (problem !== null) (optional ? problems : failures).push(`${name}: ${problem}`)
  }
  const rendered = [...conversations.map(({ name }) => name), `up to ${LENGTHS.at(-1)} turns`].join(', ')
  if (failures.length > 0) return { check, verdict: 'failed', finding: `${source}: ${failures.join('; ')}.` }

  const { engine } = subject.card
  if (engine.type === 'openai') {
    const finding = `Conversations reach the servers as they are (${rendered}). Their own template is not known here: marks in a user's text may be control tokens to it.`
    return { check, verdict: 'warning', finding }
  }
  const marks = await marksOf(subject)
  const escaped = await escapedMarks(subject, marks.known)
  if (escaped.length > 0) {
    const finding = `${source}: in a user's text, ${escaped.join(' ')} would be read as a control token.`
    return { check, verdict: 'failed', finding }
  }
  if (marks.unknown.length > 0)
    problems.push(`it writes ${marks.unknown.join(' ')}, which the vocabulary does not have`)
  if (subject.engine.info.chatTemplate === null) problems.push('neither the model nor the card has a template')
  if (problems.length > 0) return { check, verdict: 'warning', finding: `${source}: ${problems.join('; ')}.` }
  return { check, verdict: 'ok', finding: `${source} renders ${rendered}; control tokens in a user's text stay text.` }
}

function templateSource({ card, engine }: Subject): string {
  if (card.engine.chatTemplate !== undefined) return `The card's template (${card.engine.chatTemplate})`
  return engine.info.chatTemplate === null ? 'The built-in template (ChatML)' : "The template in the model's file"
}

/** Null if all texts and the image are in the prompt, in order and unchanged. */
async function problemOf(
  subject: Subject,
  messages: readonly Message[],
  image: readonly PromptPart[],
): Promise<string | null> {
  let parts: PromptPart[]
  try {
    parts = await render(subject, messages, image)
  } catch (error) {
    if (error instanceof ApiError) return error.message
    throw error
  }
  const given = parts.flatMap((part) => (part.type === 'text' ? (part.trusted ? [] : [part.text.trim()]) : ['image']))
  const expected = messages.flatMap(({ content }) => {
    if (typeof content === 'string') return [content]
    return (content ?? []).map((part) => (part.type === 'text' ? part.text : 'image'))
  })
  return given.join('|') === expected.join('|') ? null : `the prompt holds ${given.join(', ')}`
}

function render(subject: Subject, messages: readonly Message[], image: readonly PromptPart[]): Promise<PromptPart[]> {
  return buildPrompt(
    {
      param: 'messages',
      messages: messages.map((message, i) => ({ message, param: ['messages', i] })),
      media: new Map([[IMAGE, { parts: image }]]),
    },
    subject.style,
  )
}

/** The marks that the template writes around a turn, by whether each is one token. */
async function marksOf(subject: Subject): Promise<{ readonly known: string[]; readonly unknown: string[] }> {
  const parts = await render(subject, [user('first')], [])
  const text = parts.map((part) => (part.type === 'text' && part.trusted ? part.text : '')).join('\n')
  const marks = [...new Set(text.match(MARK) ?? [])]
  const isToken = await Promise.all(
    // The difference of two counts, because a tokeniser may put a token before any text.
    marks.map(async (mark) => (await count(subject, mark + mark)) - (await count(subject, mark)) === 1),
  )
  return { known: marks.filter((_, i) => isToken[i]), unknown: marks.filter((_, i) => !isToken[i]) }
}

/** The marks that would still be one token in a user's text. */
async function escapedMarks(subject: Subject, marks: readonly string[]): Promise<string[]> {
  const isEscaped = await Promise.all(
    marks.map(async (mark) => {
      const parts = (await render(subject, [user(mark)], [])).filter((part) => part.type === 'text' && !part.trusted)
      return (await countParts(subject, parts)) <= (await count(subject, mark))
    }),
  )
  return marks.filter((_, i) => isEscaped[i])
}

function count(subject: Subject, text: string): Promise<number> {
  return countParts(subject, [{ type: 'text', text, trusted: true }])
}

function countParts({ engine, signal }: Subject, parts: readonly PromptPart[]): Promise<number> {
  return engine.countTokens(parts, { organisation: ORGANISATION, signal })
}
