import type { Exhibit } from '../exhibit.ts'
import { type Finding, quoted } from '../finding.ts'
import type { Subject } from '../subject.ts'

/** Enough for an easy question; a thought that is longer is ended by the server. */
const THOUGHT_TOKENS = 512
const REPLY_TOKENS = 128

/** With thinking on, a thought that ends by itself, then a reply; with thinking off, no marks of a thought. */
export async function checkThoughts(subject: Subject, exhibits: readonly Exhibit[]): Promise<Finding[]> {
  const { thought } = subject.card
  if (!subject.model.served.reasoning || thought === undefined) {
    return [{ check: 'thinking', verdict: 'skipped', finding: 'the card does not promise reasoning' }]
  }
  const image = exhibits[0]?.image ?? null
  const text = image === null ? 'Which number is larger, 17 or 71?' : 'How many shapes are there?'
  const maxTokens = THOUGHT_TOKENS + REPLY_TOKENS
  const asked = { image, instruction: null, questions: [{ text, maxTokens }] }
  const [on] = await subject.ask({ ...asked, thoughtTokens: THOUGHT_TOKENS })
  const [off] = await subject.ask({ ...asked, questions: [{ text, maxTokens: REPLY_TOKENS }] })
  return [thinking(on!, thought.end), silent(off!.text, [thought.begin.trim(), thought.end])]
}

function thinking({ text, finish }: Awaited<ReturnType<Subject['ask']>>[number], end: string): Finding {
  const check = 'thinking'
  const at = text.indexOf(end)
  if (at === -1) return { check, verdict: 'failed', finding: `The thought never ended: ${quoted(text)}.` }
  const reply = text.slice(at + end.length).trim()
  const about = `${quoted(text.slice(0, at))}, then ${quoted(reply)}`
  if (finish.thoughtInterrupted) {
    const finding = `The thought did not end within ${THOUGHT_TOKENS} tokens, and the server ended it.`
    return { check, verdict: 'warning', finding }
  }
  return reply === ''
    ? { check, verdict: 'warning', finding: `No reply follows the thought ${quoted(text.slice(0, at))}.` }
    : { check, verdict: 'ok', finding: `The thought ends by itself: ${about}.` }
}

function silent(text: string, marks: readonly string[]): Finding {
  const check = 'not thinking'
  const found = marks.find((mark) => text.includes(mark))
  return found === undefined
    ? { check, verdict: 'ok', finding: `The model replies at once: ${quoted(text)}.` }
    : { check, verdict: 'warning', finding: `The model still writes ${found}. Clients get that as reasoning.` }
}
