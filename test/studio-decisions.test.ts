import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { DecisionAnswer } from '../src/client/answers.ts'
import { answerCsv } from '../src/commands/deciding/answers.ts'
import type { AskedQuestion } from '../src/commands/deciding/question-file.ts'
import { toAnswer, topOf } from '../studio/src/decisions/answer.ts'
import { toCsv } from '../studio/src/decisions/answer-export.ts'
import { percentText } from '../studio/src/decisions/percent-text.ts'
import { readQuestionFile, writeQuestionFile } from '../studio/src/decisions/question-file.ts'
import { QUESTION_TYPES, type TypedQuestion, toBody } from '../studio/src/decisions/questions.ts'
import type { AnswerBody } from '../studio/src/decisions/wire.ts'
import { factsText } from '../studio/src/multilook/look-facts.ts'

describe('a file of questions', () => {
  const question = fc.record({
    type: fc.constantFrom(...QUESTION_TYPES.map(({ type }) => type)),
    text: fc.string(),
    options: fc.array(fc.string(), { maxLength: 4 }),
    max: fc.option(fc.nat()),
  })

  test('that was saved asks the same when it is opened', () => {
    fc.assert(
      fc.property(fc.array(question, { minLength: 1, maxLength: 6 }), (list) => {
        expect(readQuestionFile(writeQuestionFile(list)).map(toBody)).toEqual(list.map(toBody))
      }),
    )
  })

  test('of any other content is refused with a sentence', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        try {
          for (const { type, text: asks } of readQuestionFile(text))
            expect([typeof type, typeof asks]).toEqual(['string', 'string'])
        } catch (error) {
          expect((error as Error).message).toMatch(/^(It|The page) .*[.]$/)
        }
      }),
    )
  })

  test.each([
    [{ questions: ['Is it?'] }, [{ type: 'predicate', instructions: 'Is it?' }]],
    [
      { a: { instructions: 'x', levels: ['low', 2] } },
      [{ type: 'score', instructions: 'x', levels: [{ label: 'low' }, { label: '2' }] }],
    ],
    [[{ type: 'count', instructions: 'x', max: 3 }], [{ type: 'x_count', instructions: 'x', max: 3 }]],
  ])('%j', (content, expected) => {
    expect(readQuestionFile(JSON.stringify(content)).map(toBody)).toEqual(expected)
  })
})

test('a predicate is as sure as its likelier side, of what the model would say', () => {
  const answer = toAnswer({ type: 'predicate', probability: 0.2, x_label_mass: 0.5 })
  expect(answer).toMatchObject({ confidence: 0.4, mass: 0.5 })
  if (answer.kind !== 'read') throw new Error()
  expect(topOf(answer)).toEqual({ name: 'No', share: 0.8 })
})

test('the CSV of answers has the cells of the command line', () => {
  const share = { x_label_mass: 0.5, confidence: 0.4 }
  const box = { left: 0.125, top: 0.25, right: 0.5, bottom: 1 }
  const bodies: AnswerBody[] = [
    { type: 'predicate', probability: 0.2, x_label_mass: 0.5 },
    { ...share, type: 'choice', choice: 'Red', probabilities: [{ value: 'Red', probability: 0.75 }] },
    { ...share, type: 'score', score: 1.2345, probabilities: [{ label: 'low', value: 0, probability: 1 }] },
    { ...share, type: 'x_count', count: 0, probabilities: [{ value: 0, probability: 0.6 }] },
    { type: 'x_box', box, confidence: 0.9 },
    { type: 'x_box', box: null, confidence: null },
    { type: 'x_point', point: { x: 0.5, y: 0.0625 }, confidence: 0.9 },
    { type: 'x_clip', clip: { start_seconds: 0, end_seconds: 1.5 }, confidence: null },
    { type: 'refusal' },
  ] as never
  const asked = bodies.map((body) => ({ type: body.type, instructions: ' Is it, or not? ' }))
  const decided = bodies.map((body) => {
    const question = { id: 'a', type: body.type, text: ' Is it, or not? ', options: [], max: null } as TypedQuestion
    return { question, answer: toAnswer(body), media: '', model: null }
  })
  const answers = bodies as readonly unknown[] as readonly DecisionAnswer[]
  const written = answerCsv([{ file: 'a.png', answers }], asked as unknown as readonly AskedQuestion[])
  const withoutFile = written.replaceAll(/^(a\.png|file),/gm, '').replaceAll('" Is it, or not? "', '"Is it, or not?"')
  expect(toCsv(decided)).toBe(withoutFile)
  expect(toCsv(decided)).toContain('predicate,no,0.2,\r\n')
})

test('the figures say how often the context was read', () => {
  const facts = (reused: number, questions: number, readings?: number) =>
    factsText(
      {
        usage: { prompt_tokens: 1000, completion_tokens: 0, prompt_tokens_details: { cached_tokens: reused } },
        questions,
        failed: 0,
        answers: questions,
        milliseconds: 35,
        ...(readings === undefined ? {} : { readings }),
      },
      'question',
    ).replaceAll('\u00a0', ' ')
  expect(facts(700, 8)).toBe('Context read once: 100 tokens · 8 questions · 35 ms')
  expect(facts(605, 8, 2)).toBe('Context read twice: ~101 tokens · 8 questions · 35 ms')
  expect(facts(500, 8, 3)).toBe('Context read 3 times: ~100 tokens · 8 questions · 35 ms')
  expect(facts(0, 2, 2)).toBe('1,000 prompt tokens · 2 questions · 35 ms')
})

test.each([
  [0, '0.0 %'],
  [0.0001, '< 0.1 %'],
  [0.1234, '12.3 %'],
  [0.9999, '> 99.9 %'],
  [1, '100.0 %'],
])('%d is %s', (share, text) => {
  expect(percentText(share).replaceAll('\u00a0', ' ')).toBe(text)
})
