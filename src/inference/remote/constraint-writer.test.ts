import { afterAll, expect, test } from 'vitest'
import { ConstraintWriter } from './constraint-writer.ts'

const writer = new ConstraintWriter()
afterAll(() => writer.close())

test('counts that one reading follows are left to the servers', async () => {
  const { ebnf, exact } = await writer.write({ type: 'regex', pattern: '[a-z]{2,900}\\d{4}' }, 'org')
  expect(ebnf).toContain('{2,900}')
  expect(exact).toBe(true)
})

test.each(['(a{1,9}[a-z ]{0,90}){0,60}a\\.', '(?:\\w{1,20}\\s?){1,50}'])(
  'counts of %s, which can be read in many ways, are not',
  async (pattern) => {
    const { ebnf, exact } = await writer.write({ type: 'regex', pattern }, 'org')
    expect(ebnf).not.toMatch(/\{\d/)
    expect(exact).toBe(false)
  },
)

test.each([
  [{ type: 'string', pattern: '^(?:[a-z]{1,40}-){1,40}$' }, false],
  [{ type: 'string', format: 'uuid' }, true],
])('counts of %j are written for llama.cpp only as far as it takes them', async (schema, isCounted) => {
  const { ebnf, gbnf } = await writer.write({ type: 'json_schema', schema }, 'org')
  expect(gbnf === ebnf).toBe(isCounted)
  expect(/\{\d/.test(gbnf)).toBe(isCounted)
})

test('what the servers would need too much memory for is refused by name', async () => {
  const schema = { enum: Array.from({ length: 8000 }, (_, index) => `label ${index}`) }
  await expect(
    writer.write({ type: 'json_schema', schema, param: 'response_format.json_schema.schema' }, 'org'),
  ).rejects.toMatchObject({
    status: 400,
    param: 'response_format.json_schema.schema',
    code: 'invalid_response_format',
    message: expect.stringMatching(/too large/),
  })
})

test('what is not supported here is refused as it is by the local engine', async () => {
  await expect(writer.write({ type: 'regex', pattern: '(?=a)', param: 'regex' }, 'org')).rejects.toMatchObject({
    status: 400,
    param: 'regex',
    code: 'invalid_regex',
  })
})
