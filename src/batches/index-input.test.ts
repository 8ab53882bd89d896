import { afterAll, expect, test } from 'vitest'
import { InputIndexer } from './index-input.ts'

const indexer = new InputIndexer()
afterAll(() => indexer.close())

const DETECT = '/v1/detect'

async function index(lines: readonly (object | string)[]) {
  async function* bytes() {
    for (const line of lines) yield Buffer.from(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
  }
  return indexer.index(bytes(), DETECT)
}

const about = (picture: string, id: string) => ({
  custom_id: id,
  method: 'POST',
  url: DETECT,
  body: { media: { type: 'image', image_url: `data:image/png;base64,${picture}` }, categories: [id] },
})

test('lines about one picture follow one another, in the order of their first lines', async () => {
  const long = 'A'.repeat(200_000)
  const found = await index(
    ['a', 'b', 'c'].flatMap((id) => [long, 'BBBB', 'CCCC'].map((p) => about(p, `${id}${p[0]}`))),
  )
  if ('problems' in found) throw new Error(JSON.stringify(found.problems))
  expect(found.lines.map(({ customId }) => customId)).toEqual(['aA', 'bA', 'cA', 'aB', 'bB', 'cB', 'aC', 'bC', 'cC'])
})

test('says what is wrong with which lines', async () => {
  const found = await index([
    about('A', 'one'),
    '',
    '{"custom_id":',
    '[]',
    { ...about('A', 'x'), custom_id: 7 },
    { ...about('A', 'x'), custom_id: 'a\ud800' },
    { ...about('A', 'x'), method: 'GET' },
    { ...about('A', 'x'), url: '/v1/decisions' },
    { ...about('A', 'x'), body: 'x' },
    about('A', 'one'),
  ])
  expect('problems' in found && found.problems.map(({ line, code, param }) => [line, code, param])).toEqual([
    [3, 'invalid_json_line', null],
    [4, 'invalid_json_line', null],
    [5, 'invalid_custom_id', 'custom_id'],
    [6, 'invalid_custom_id', 'custom_id'],
    [7, 'invalid_method', 'method'],
    [8, 'mismatched_url', 'url'],
    [9, 'invalid_body', 'body'],
    [10, 'duplicate_custom_id', 'custom_id'],
  ])
})

test('a body that is nested deep, or has a great many members, ends nothing', async () => {
  const deep = `${'[{"a":'.repeat(20_000)}1${'}]'.repeat(20_000)}`
  const wide = Object.fromEntries(Array.from({ length: 200_000 }, (_, key) => [key, 1]))
  const found = await index([
    `{"custom_id":"deep","method":"POST","url":"${DETECT}","body":{"b":${deep}}}`,
    { custom_id: 'wide', method: 'POST', url: DETECT, body: wide },
  ])
  expect('lines' in found && found.lines.map(({ customId }) => customId)).toEqual(['deep', 'wide'])
})

test('a line with more values than a body may have is named, and costs no more memory than others', async () => {
  const found = await index([
    about('A', 'one'),
    `{"custom_id":"many","method":"POST","url":"${DETECT}","body":{"x":[${'{},'.repeat(6_500_000)}{}]}}`,
  ])
  expect(found).toEqual({
    problems: [
      expect.objectContaining({ line: 2, code: 'line_too_complex', message: expect.stringContaining('250000') }),
    ],
  })
})
