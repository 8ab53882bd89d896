import { parseRecord } from '../../lib/json/parse-json.ts'
import { InlineMedia } from '../../media/inline-media.ts'
import { COLOUR_NAMES } from '../drawing.ts'
import type { Exhibit } from '../exhibit.ts'
import { type Finding, of, quoted } from '../finding.ts'
import type { ChatFields, Subject } from '../subject.ts'

const SCHEMA = {
  type: 'object',
  properties: { colour: { type: 'string', enum: COLOUR_NAMES } },
  required: ['colour'],
  additionalProperties: false,
}
const QUESTIONS = 4

/** Replies with a small schema: whether they follow it, which the grammar ensures, and whether they are right. */
export async function checkSchema(subject: Subject, exhibits: readonly Exhibit[]): Promise<Finding> {
  const check = 'JSON schema'
  if (!subject.model.served.capabilities.includes('response_format_json_schema')) {
    return { check, verdict: 'skipped', finding: 'the card does not promise response_format_json_schema' }
  }
  const cases = exhibits.length > 0 ? exhibits.slice(0, QUESTIONS).map(shown) : COLOUR_NAMES.map(told)
  let right = 0
  for (const { content, colour } of cases) {
    const { text } = await subject.chat({
      messages: [{ role: 'user', content }],
      structure: { type: 'json_schema', schema: SCHEMA },
    })
    const answer = colourIn(text)
    if (answer === null)
      return { check, verdict: 'failed', finding: `A reply does not follow its schema: ${quoted(text)}.` }
    if (answer === colour) right++
  }
  const numbers = { right, asked: cases.length }
  const finding = `Replies follow the schema, and ${of(right, cases.length)} are right.`
  return { check, verdict: right >= cases.length * 0.75 ? 'ok' : 'warning', finding, numbers }
}

interface Case {
  readonly content: NonNullable<Extract<ChatFields['messages'][number], { role: 'user' }>['content']>
  readonly colour: string
}

function shown({ png, drawing: { target } }: Exhibit): Case {
  const text = `What colour is the ${target.kind}?`
  const image = { type: 'image_url', image_url: { url: new InlineMedia(png) } } as const
  return { content: [image, { type: 'text', text }], colour: target.colour }
}

function told(colour: string): Case {
  return { content: `The ball is ${colour}. What colour is the ball?`, colour }
}

function colourIn(json: string): string | null {
  const value = parseRecord(json) ?? {}
  return Object.keys(value).length === 1 ? (COLOUR_NAMES.find((name) => name === value.colour) ?? null) : null
}
