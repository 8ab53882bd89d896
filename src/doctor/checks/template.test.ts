import { expect, test } from 'vitest'
import { ChatTemplate } from '../../conversation/prompt/chat-template.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import { CHATML } from '../../templates/chatml.ts'
import type { Subject } from '../subject.ts'
import { checkTemplate } from './template.ts'

/** A model with this template, whose vocabulary has the marks of ChatML. */
function subject(chatTemplate: string): Subject {
  const tokens = (parts: readonly PromptPart[]) =>
    parts
      .map((part) => (part.type === 'text' ? part.text : ''))
      .join('')
      .replace(/<\|im_(?:start|end)\|>/g, (mark) =>
        parts.every((part) => 'trusted' in part && part.trusted) ? '*' : mark,
      )
  return {
    card: { engine: { type: 'llama.cpp' } },
    engine: { info: { chatTemplate }, countTokens: async (parts: readonly PromptPart[]) => tokens(parts).length },
    style: { template: new ChatTemplate({ chatTemplate, bosToken: '', eosToken: '' }), thought: null, marks: [] },
  } as unknown as Subject
}

test('a template that renders conversations of all lengths', async () => {
  expect(await checkTemplate(subject(CHATML), [])).toMatchObject({
    verdict: 'ok',
    finding: expect.stringContaining('one turn, several turns, a system text, up to 41 turns'),
  })
})

test.each([
  ['refuses', 5, "{% if messages | length >= 5 %}{{ raise_exception('too long') }}{% endif %}", /5 turns: .*too long/],
  ['forgets', 9, '{% if messages | length > 8 %}{% set messages = messages[2:] %}{% endif %}', /9 turns: .*leaves out/],
])('a template that %s conversations from %d turns on fails', async (_name, _turns, trap, finding) => {
  expect(await checkTemplate(subject(trap + CHATML), [])).toMatchObject({
    verdict: 'failed',
    finding: expect.stringMatching(finding),
  })
})
