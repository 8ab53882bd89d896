import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Comparison } from './comparison.ts'

const { body } = fc.letrec((tie) => ({
  number: fc.oneof(fc.integer({ min: -2, max: 3 }), fc.double()),
  text: fc.oneof(
    fc.string(),
    fc.constantFrom(
      'a cat sat',
      'a cat ran',
      '{"a": [1]}',
      '{"a":[1.0]}',
      '<point mention="cat"> (1,2) </point>',
      '<point',
    ),
  ),
  point: fc.record({ x: tie('number'), y: tie('number') }),
  box: fc.record({ top_left: tie('point'), bottom_right: tie('point') }),
  detection: fc.record(
    { mention: tie('text'), point: tie('point'), point_box: tie('box') },
    { requiredKeys: ['mention'] },
  ),
  option: fc.record({ value: tie('text'), probability: tie('number') }),
  answer: fc.record(
    {
      name: fc.constantFrom(null, 'one'),
      type: fc.constantFrom('predicate', 'choice', 'x_box', 'x_point', 'refusal'),
      probability: tie('number'),
      probabilities: fc.array(tie('option'), { maxLength: 3 }),
      point: fc.option(tie('point')),
    },
    { requiredKeys: ['name', 'type'] },
  ),
  call: fc.oneof(
    fc.record({ type: fc.constant('function'), function: fc.record({ name: tie('text'), arguments: tie('text') }) }),
    fc.anything(),
  ),
  message: fc.record(
    { content: tie('text'), tool_calls: fc.array(tie('call'), { maxLength: 2 }) },
    { requiredKeys: [] },
  ),
  choice: fc.record({ message: tie('message'), finish_reason: tie('text') }),
  item: fc.record({
    type: fc.constantFrom('text', 'message', 'tool_use', 'other'),
    text: tie('text'),
    name: tie('text'),
  }),
  body: fc.oneof(
    fc.record({ choices: fc.array(tie('choice'), { maxLength: 2 }) }),
    fc.record({
      results: fc.array(fc.record({ completions: fc.array(tie('choice'), { maxLength: 2 }) }), { maxLength: 2 }),
    }),
    fc.record({ detections: fc.array(tie('detection'), { maxLength: 4 }), finish_reason: tie('text') }),
    fc.record({ answers: fc.array(tie('answer'), { maxLength: 3 }) }),
    fc.record({ content: fc.array(tie('item'), { maxLength: 3 }) }),
    fc.anything(),
  ),
}))
/** As it is read from a file. */
const json = body.map((value) => JSON.parse(JSON.stringify(value) ?? 'null') as unknown)

test('a body is the same as itself, and what differs one way differs the other way', () => {
  fc.assert(
    fc.property(json, json, (one, other) => {
      expect(new Comparison().add({ body: one }, { body: structuredClone(one) })).toEqual([])
      const [forth, back] = [new Comparison(), new Comparison()]
      const parts = (changes: ReturnType<Comparison['add']>) => new Set(changes.map(({ part }) => part))
      expect(parts(forth.add({ body: one }, { body: other }))).toEqual(parts(back.add({ body: other }, { body: one })))
      expect(JSON.stringify(forth.toJson())).not.toContain('null,"largest')
      const before = (comparison: Comparison) => sumOf(comparison, 'only_before')
      expect([before(forth), sumOf(forth, 'only_now')]).toEqual([sumOf(back, 'only_now'), before(back)])
    }),
    { numRuns: 300 },
  )
})

/** Places before, or now. */
function sumOf(comparison: Comparison, side: 'only_before' | 'only_now'): number {
  return Object.values(comparison.toJson().places).reduce((sum, counts) => sum + counts.matched + counts[side], 0)
}
