import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ApiError } from '../../../lib/errors/errors.ts'
import { MOST_JSON_LEVELS } from '../../../lib/json/json-depth.ts'
import { MOST_LEVELS, MOST_VALUES } from '../../../lib/json/json-shape.ts'
import { checkShape } from './json-shape.ts'

function errorFrom(text: string): ApiError | null {
  try {
    checkShape(Buffer.from(text))
    return null
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
}

function levelsOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(levelsOf))
}

/** Texts that a careless scanner may take for structure. */
const tricky = fc.string({ unit: fc.constantFrom('"', '\\', '[', '{', ',', ':', ']', 'é', 'a'), maxLength: 60 })
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    tricky,
    fc.integer(),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(tricky, tie('value'), { maxKeys: 4 }),
  ),
})).value

describe('levels', () => {
  test('a value may nest up to the limit and no deeper, with any strings', () => {
    fc.assert(
      fc.property(json, fc.integer({ min: MOST_LEVELS - 8, max: MOST_LEVELS + 2 }), (value, wrapped) => {
        const text = `${'[ '.repeat(wrapped)}${JSON.stringify(value)}${']'.repeat(wrapped)}`
        const levels = wrapped + levelsOf(value)
        expect(errorFrom(text)?.message ?? null).toBe(
          levels > MOST_LEVELS ? `The request body is nested deeper than ${MOST_JSON_LEVELS} levels` : null,
        )
      }),
    )
  })

  test('the error names the key, with anything around it', () => {
    fc.assert(
      fc.property(fc.dictionary(tricky, json, { maxKeys: 4 }), json, (before, sibling) => {
        const deep = '['.repeat(MOST_LEVELS)
        const text = `${JSON.stringify({ ...before, sibling }).slice(0, -1)},"prompts": [1, {"content" : ${deep}`
        expect(errorFrom(text)?.param).toBe('prompts[1]')
      }),
    )
  })

  test('closing brackets without an opening one are left to the parser', () => {
    expect(errorFrom(']}]]')).toBeNull()
  })
})

describe('values', () => {
  test('a list below the limit passes; a longer one is named in the error', () => {
    const items = (count: number) => `{"messages": [{"role": "user", "content": [${'1,'.repeat(count)}1]}]}`
    expect(errorFrom(items(MOST_VALUES - 10))).toBeNull()
    expect(errorFrom(items(MOST_VALUES))).toMatchObject({ status: 400, param: 'messages[0].content' })
  })

  test('a string full of commas is one value', () => {
    expect(errorFrom(JSON.stringify({ text: ','.repeat(2 * MOST_VALUES) }))).toBeNull()
  })
})

test('JSON truncated anywhere is left to the parser', () => {
  fc.assert(
    fc.property(json, fc.nat(200), (value, at) => {
      expect(errorFrom(JSON.stringify(value).slice(0, at))).toBeNull()
    }),
  )
})
