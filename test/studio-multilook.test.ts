import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toCsv, toJson } from '../studio/src/multilook/answer-export.ts'
import { sharingOf } from '../studio/src/multilook/look-facts.ts'
import { DEFAULT_LOOK, withCompletions } from '../studio/src/multilook/look-options.ts'
import { linesOf, moved } from '../studio/src/questions/question-store.ts'

describe('the list', () => {
  test('pasted lines lose bullets, numbers and blank lines', () => {
    expect(linesOf('1. What?\r\n 2) Who?\n\n- Where?\n* 3 circles?\n• -5?\n1.5 of what?')).toEqual([
      'What?',
      'Who?',
      'Where?',
      '3 circles?',
      '-5?',
      '1.5 of what?',
    ])
  })

  test('a move changes one place and keeps the order of the others', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(), { minLength: 1 }), fc.nat(), fc.integer(), (list, index, to) => {
        const from = index % list.length
        const after = moved(list, from, to)
        expect(after.indexOf(list[from]!)).toBe(Math.min(Math.max(0, to), list.length - 1))
        expect(after.filter((item) => item !== list[from])).toEqual(list.filter((item) => item !== list[from]))
      }),
    )
  })
})

test('several completions bring a temperature, and one alone gives it back', () => {
  const several = withCompletions(DEFAULT_LOOK, 3)
  expect(several).toMatchObject({ n: 3, temperature: 0.7 })
  expect(withCompletions(several, 1)).toEqual(DEFAULT_LOOK)
  expect(withCompletions({ ...several, temperature: 0 }, 4).temperature).toBe(0.7)
  expect(withCompletions(withCompletions({ ...DEFAULT_LOOK, temperature: 1.5 }, 2), 1).temperature).toBe(1.5)
})

describe('the figures', () => {
  const facts = (prompts: number, cached: number, failed = 0) => ({
    usage: { prompt_tokens: 1000, completion_tokens: 10, prompt_tokens_details: { cached_tokens: cached } },
    questions: prompts,
    failed,
    answers: prompts,
    milliseconds: 100,
  })

  test('are those of the reply', () => {
    expect(sharingOf(facts(4, 600))).toEqual({ context: 200, all: 1000, computed: 400 })
    expect(sharingOf(facts(1, 0))).toBeNull()
    expect(sharingOf({ ...facts(4, 600), usage: null })).toBeNull()
  })

  test('do not say what the reply does not', () => {
    // Whether the failed question ran, and so has a share of the cached tokens, is not known.
    expect(sharingOf(facts(4, 600, 1))).toEqual({ context: null, all: 1000, computed: 400 })
    expect(sharingOf(facts(4, 601))).toEqual({ context: null, all: 1000, computed: 399 })
  })
})

describe('exports', () => {
  const answered = [
    {
      question: 'Say "a, b"',
      model: 'm',
      answers: [
        { text: 'a, b', thoughts: '', finishReason: 'stop' },
        { text: 'x\ny', thoughts: 'Hm.', finishReason: 'length' },
      ],
      error: null,
    },
    { question: 'Who?', model: 'm', answers: [], error: 'Too long' },
  ]

  test('CSV has a line for each completion and each failure', () => {
    expect(toCsv(answered)).toBe(
      [
        'question,completion,answer,thoughts,finish_reason,error',
        '"Say ""a, b""",1,"a, b",,stop,',
        '"Say ""a, b""",2,"x\ny",Hm.,length,',
        'Who?,,,,,Too long',
        '',
      ].join('\r\n'),
    )
  })

  test('JSON has them by question', () => {
    expect(JSON.parse(toJson(answered, null))).toEqual({
      model: 'm',
      results: [
        {
          question: 'Say "a, b"',
          answers: [
            { text: 'a, b', finish_reason: 'stop' },
            { text: 'x\ny', thoughts: 'Hm.', finish_reason: 'length' },
          ],
        },
        { question: 'Who?', error: 'Too long' },
      ],
    })
  })

  test('JSON has the model of each question where some were asked again of another', () => {
    const two = answered.map((one, index) => ({ ...one, model: ['m', 'n'][index]! }))
    const json = JSON.parse(toJson(two, null)) as { model?: string; results: { model?: string }[] }
    expect(json.model).toBeUndefined()
    expect(json.results.map(({ model }) => model)).toEqual(['m', 'n'])
  })
})
