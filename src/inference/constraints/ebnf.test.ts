import { describe, expect, test } from 'vitest'
import type { Constraint } from '../contract/constraint.ts'
import { grammarOf } from './constraint-grammar.ts'
import { toEbnf } from './ebnf.ts'

const written = (constraint: Constraint) => toEbnf(grammarOf(constraint))
const regex = (pattern: string): Constraint => ({ type: 'regex', pattern })

describe('EBNF', () => {
  test.each([
    ['a"\\\\b\\n', 'root ::= [a] ["] [\\u005c] [b] [\\u000a]'],
    ['[\\]\\-^\\[]', 'root ::= [\\u002d\\u005b\\u005d-\\u005e]'],
    ['[à-ÿ😀]*', 'root ::= [\\u00e0-\\u00ff\\U0001f600]*'],
    ['(?:a|b*){2,3}', 'root ::= ([a] | [b]*){2,3}'],
    ['(?:a*)*', 'root ::= ([a]*)*'],
    ['(?:)', 'root ::= ""'],
  ])('%s', (pattern, text) => {
    expect(written(regex(pattern))).toEqual({ text, exact: true })
  })

  test('texts are quoted', () => {
    const { text } = written({ type: 'json_schema', schema: { const: 'a"\\é😀\n' } })
    expect(text).toContain('"\\"a\\\\\\"\\\\\\\\\\u00e9\\U0001f600\\\\n\\""')
  })

  test('what no text completes is left out', () => {
    const schema = {
      properties: { a: { $ref: '#/$defs/endless' }, b: { type: 'null' } },
      $defs: { endless: { properties: { next: { $ref: '#/$defs/endless' } }, required: ['next'] } },
    }
    expect(written({ type: 'json_schema', schema }).text).not.toMatch(/next|\\"a\\"/)
  })

  test('large counts of characters with escapes are left out, and no others', () => {
    const string = (counts: object) => written({ type: 'json_schema', schema: { type: 'string', ...counts } })
    expect(written(regex('[ab]{0,9000}'))).toEqual({ text: 'root ::= [a-b]{0,9000}', exact: true })
    expect(written(regex('(?:ab){7,9000}'))).toEqual({ text: 'root ::= ([a] [b]){7,9000}', exact: true })
    expect(string({ maxLength: 127 })).toMatchObject({ text: expect.stringContaining('{0,127}'), exact: true })
    expect(string({ maxLength: 128 })).toMatchObject({ text: expect.not.stringContaining('{'), exact: false })
    expect(string({ minLength: 9 })).toMatchObject({ text: expect.stringContaining('{9}'), exact: true })
    expect(string({ minLength: 200 })).toMatchObject({ text: expect.stringContaining('{127}'), exact: false })
  })
})
