import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DECIDES_BY_LETTERS, type DecisionForms } from '../../families/decision-forms.ts'
import { FAMILIES } from '../../families/families.ts'
import type { Content } from '../request/decision-request.ts'
import { MOST_REPLIES } from './option-names.ts'
import { type ReadableQuestion, wordingOf } from './wording.ts'

const NAMES: DecisionForms = FAMILIES.lookout.decision!
const param = ['questions', 0]
const said = (text: string): Content => (text === '' ? [] : [{ part: { type: 'text', text }, param }])

function worded(question: ReadableQuestion, forms: DecisionForms) {
  const { content, replies } = wordingOf(question, forms)
  return { asked: content.map(({ part }) => (part.type === 'text' ? part.text : `[${part.type}]`)).join(''), replies }
}

const predicate = (text: string, yes = '', no = ''): ReadableQuestion => ({
  type: 'predicate',
  param,
  instructions: said(text),
  yes: said(yes),
  no: said(no),
})
const choice = (text: string, ...options: readonly (string | boolean | [string, string])[]): ReadableQuestion => ({
  type: 'choice',
  param,
  instructions: said(text),
  options: options.map((option) =>
    typeof option === 'object'
      ? { value: option[0], description: said(option[1]) }
      : { value: option, description: [] },
  ),
})

describe('a model that follows instructions', () => {
  test('is told how to answer a question and a statement', () => {
    expect(worded(predicate('Is it so?'), DECIDES_BY_LETTERS)).toEqual({
      asked: 'Is it so?\n\nAnswer yes or no only.',
      replies: [
        ['Yes', 'Yes.'],
        ['No', 'No.'],
      ],
    })
    expect(worded(predicate('It is so.', 'Very.', 'Not at all.'), DECIDES_BY_LETTERS).asked).toBe(
      'It is so.\n\nYes: Very.\nNo: Not at all.\n\nIs this true? Answer yes or no only.',
    )
  })

  test('answers with letters, also for many options', () => {
    expect(worded(choice('Which?', ['red', 'like fire'], true), DECIDES_BY_LETTERS)).toEqual({
      asked: 'Which?\n\nA. red: like fire\nB. true\n\nAnswer with the letter of the one that fits best only.',
      replies: [
        ['A', 'A.'],
        ['B', 'B.'],
      ],
    })
    const many = worded(choice('Which?', ...Array.from({ length: 255 }, (_, i) => String(i))), DECIDES_BY_LETTERS)
    expect(many.replies.slice(0, 2)).toEqual([
      ['AA', 'AA.'],
      ['AB', 'AB.'],
    ])
    expect(many.asked).toContain('\nJU. 254\n')
  })

  test('answers with the number of a level', () => {
    const levels = ['low', 'high'].map((label) => ({ label, description: [] }))
    expect(worded({ type: 'score', param, instructions: said('How?'), levels }, DECIDES_BY_LETTERS)).toEqual({
      asked: 'How?\n\n0. low\n1. high\n\nAnswer with the number of the level that fits best only.',
      replies: [
        ['0', '0.'],
        ['1', '1.'],
      ],
    })
  })
})

describe('a model that answers with names', () => {
  test.each([
    ['Is there a ring?', 'Is there a ring?'],
    ['There is a ring.', 'Is it true that there is a ring?'],
    [' There is a ring.\n', 'Is it true that there is a ring?'],
    ['Anna is there', 'Is it true that Anna is there?'],
  ])('%s', (statement, asked) => {
    expect(worded(predicate(statement), NAMES).asked).toBe(asked)
  })

  test('is asked the question alone, and each way to name an option counts', () => {
    expect(worded(choice('Which?', 'red', 'apple', '7', true), NAMES)).toEqual({
      asked: 'Which?',
      replies: [
        ['Red.', 'A red.', 'The red.', 'red'],
        ['Apple.', 'An apple.', 'The apple.', 'apple'],
        ['7.', 'A 7.', 'The 7.', '7'],
        ['Yes.'],
      ],
    })
  })

  test.each([
    ['differ in a capital only', choice('Which?', 'red', 'Red')],
    ['are sentences', choice('Which?', 'red', 'x'.repeat(65))],
    ['are yes and true', choice('Which?', 'yes', true)],
    ['have several lines', choice('Which?', 'a\nb', 'c')],
  ])('gets letters where options %s', (_why, question) => {
    expect(worded(question, NAMES)).toMatchObject({
      asked: expect.stringContaining('\n\nA. '),
      replies: [expect.arrayContaining(['A']), expect.arrayContaining(['B'])],
    })
  })
})

test('for any options, no reply means two of them, and all can be read at once', () => {
  const option = fc.oneof(
    fc.string({ minLength: 1, maxLength: 8 }),
    fc.boolean(),
    fc.constantFrom('yes', 'Yes.', 'a', 'A', '1'),
  )
  const options = fc.uniqueArray(option, { minLength: 2, maxLength: 255 })
  fc.assert(
    fc.property(options, fc.constantFrom(NAMES, DECIDES_BY_LETTERS), (values, forms) => {
      const { replies } = wordingOf(choice('Which?', ...values), forms)
      const all = replies.flat()
      expect(replies).toHaveLength(values.length)
      expect(replies.every(({ length }) => length > 0)).toBe(true)
      expect(new Set(all).size).toBe(all.length)
      expect(all.length).toBeLessThanOrEqual(MOST_REPLIES)
      expect(all).not.toContain('')
    }),
  )
})
