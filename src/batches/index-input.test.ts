import { execFile } from 'node:child_process'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import type { BatchProblem } from '../storage/schema.ts'
import { indexedInput } from './index-input.ts'
import { type IndexedLine, indexInput } from './input-index.ts'

const DETECT = '/v1/detect'

async function index(lines: readonly (object | string)[]) {
  async function* bytes() {
    for (const line of lines) yield Buffer.from(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
  }
  return indexOf(bytes())
}

async function indexOf(
  input: AsyncIterable<Uint8Array>,
): Promise<{ lines?: readonly IndexedLine[]; problems?: readonly BatchProblem[] }> {
  await using index = await indexedInput(input, DETECT, new AbortController().signal)
  if ('problems' in index) return { problems: index.problems }
  const found: IndexedLine[] = []
  for await (const part of index.parts) found.push(...part)
  return { lines: found }
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
  expect(found.lines?.map(({ customId }) => customId)).toEqual(['aA', 'bA', 'cA', 'aB', 'bB', 'cB', 'aC', 'bC', 'cC'])
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
  expect(found.problems?.map(({ line, code, param }) => [line, code, param])).toEqual([
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
  expect(found.lines?.map(({ customId }) => customId)).toEqual(['deep', 'wide'])
})

test('a line with more values than a body may have is named, and costs no more memory than others', async () => {
  const found = await index([
    about('A', 'one'),
    `{"custom_id":"many","method":"POST","url":"${DETECT}","body":{"x":[${'{},'.repeat(1_000_000)}{}]}}`,
  ])
  expect(found).toEqual({
    problems: [
      expect.objectContaining({ line: 2, code: 'line_too_complex', message: expect.stringContaining('250000') }),
    ],
  })
})

test('lines may end with CRLF or not at all, begin with a byte order mark, and have ids like __proto__', async () => {
  const line = (id: string) => JSON.stringify(about('A', id))
  const text = `\ufeff${line('__proto__')}\r\n \t\r\n\ufeff${line('constructor')}\r\n${line('é😀')}`
  const found = await index([text])
  expect(found.lines?.map(({ customId }) => customId)).toEqual(['__proto__', 'constructor', 'é😀'])
  const bytes = Buffer.from(`${text}\n`)
  for (const { customId, start, length } of found.lines!) {
    expect(bytes.toString('utf8', start, start + length)).toBe(JSON.stringify(about('A', customId).body))
  }
})

test('the last of several bodies is the request, as in JSON.parse, and says whether it streams', async () => {
  const text = `{"body":{"stream":false},"custom_id":"é","method":"POST","url":"${DETECT}","bod\\u0079" : {"stream":true} }`
  const found = await index([text])
  expect(found.lines).toEqual([
    { customId: 'é', start: Buffer.byteLength(text.slice(0, text.lastIndexOf('{'))), length: 15, streams: true },
  ])
})

test.each([
  ['a zero byte', Buffer.from('{"custom_id":"a\0"}\n')],
  ['bytes that are no UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0x7d, 0x0a])],
  ['a text that does not end', Buffer.from('{"custom_id":"')],
  ['a prototype for an object', Buffer.from('{"__proto__":{"custom_id":"a"}}')],
])('%s is a problem of its line', async (_, bytes) => {
  const found = await indexOf(Readable.from([bytes]))
  expect(found.problems?.map(({ line }) => line)).toEqual([1])
})

test('a file of line breaks, and lines of megabytes, are read beside the event loop', async () => {
  const long = Buffer.from(`${JSON.stringify(about('A'.repeat(9_000_000), 'long'))}\n`)
  const BREAKS = 32
  const breaks = Buffer.alloc(2 ** 16, '\n')
  async function* bytes() {
    for (let count = 0; count < BREAKS; count++) yield breaks
    for (let count = 0; count < 3; count++)
      for (let at = 0; at < long.length; at += 2 ** 18) yield long.subarray(at, at + 2 ** 18)
  }
  const costOf = async (work: () => Promise<unknown>) => {
    const before = process.threadCpuUsage()
    await work()
    const { user, system } = process.threadCpuUsage(before)
    return user + system
  }
  const here = await costOf(() => indexInput(bytes(), DETECT))
  const found = { problems: [] as readonly BatchProblem[] }
  const beside = await costOf(async () => Object.assign(found, await indexOf(bytes())))
  expect(found.problems.map(({ line, code }) => [line, code])).toEqual(
    [2, 3].map((line) => [BREAKS * 2 ** 16 + line, 'duplicate_custom_id']),
  )
  expect(beside).toBeLessThan(here / 4)
})

test('the worst inputs need little memory', async () => {
  const program = fileURLToPath(new URL('../../test/fixtures/hostile-input.ts', import.meta.url))
  // Without the room that a thread has by default, a process that needed more would end here.
  const { stdout } = await promisify(execFile)(process.execPath, ['--max-old-space-size=256', program])
  expect(stdout.trim().split('\n')).toEqual([
    ...Array.from({ length: 7 }, () => '1 lines'),
    ...['line_too_complex', 'invalid_json_line', 'line_too_long', 'too_many_lines', 'duplicate_custom_id'],
  ])
})
