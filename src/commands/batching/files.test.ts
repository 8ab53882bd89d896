import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openRequests } from './request-file.ts'
import { openResults } from './result-files.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-batching-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const save = async (name: string, lines: readonly string[]) => {
  await writeFile(join(directory, name), lines.map((line) => `${line}\n`).join(''))
  return join(directory, name)
}
/** A line of an output. */
const result = (id: string, body: object = {}) =>
  JSON.stringify({ custom_id: id, response: { status_code: 200, body }, error: null })
const request = (id: string, fields: object = {}) =>
  JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/detect', body: { id }, ...fields })

test.each([
  [[], ' has no lines'],
  [['', ' '], ' has no lines'],
  [[result('one'), result('two').slice(0, -9)], ':2: the line is cut off: is the file complete?'],
  [['', result('one', { a: 1 }).replace('1}', 'NaN}')], ':2: the line has NaN or Infinity, which JSON does not have'],
  [[result('one'), '', result('one')], ':3 has the same id as FILE:1: "one"'],
  [[request('one')], ':1: this is a request. '],
  [['[1]'], ':1: the line is not a JSON object. '],
  [['\u0089PNG'], ':1: the line is not a JSON object. '],
  [['{"custom_id": "one", "response": 3}'], ":1: expected 'response' with 'status_code' and 'body'"],
  [['{"custom_id": "", "response": null, "error": {}}'], ':1: expected a line of '],
  [['{"custom_id": "one"}'], ':1: expected a line of '],
])('%j is no output of a batch', async (lines, message) => {
  const file = await save('wrong.jsonl', lines)
  await expect(openResults([file])).rejects.toThrow(`${file}${message.replace('FILE', file)}`)
})

test('outputs that are not there, or name a request twice, are named', async () => {
  const [one, other] = [await save('one.jsonl', [result('a')]), await save('other.jsonl', [result('b'), result('a')])]
  await expect(openResults([one, other])).rejects.toThrow(`${other}:2 has the same id as ${one}:1: "a"`)
  await expect(openResults([one, `${one}.gone`])).rejects.toThrow(`${one}.gone cannot be read: ENOENT`)
  await expect(openResults([directory])).rejects.toThrow(`${directory} cannot be read: EISDIR`)
})

test('several outputs are read as one, with any line breaks', async () => {
  const one = await save('crlf.jsonl', [`\ufeff${result('a', { text: 'é' })}\r`, '', `${result('b')}\r`])
  const picture = '{"file": "photos/1.jpg", "answer": "a cat", "finish_reason": "stop"}'
  const none = '{"custom_id": "c", "response": null, "error": {"code": "batch_expired", "message": "late"}}'
  using files = await openResults([one, await save('rest.jsonl', [picture, none])])
  expect([...files.ids]).toEqual(['a', 'b', 'photos/1.jpg', 'c'])
  expect(files.find('a')).toEqual({ body: { text: 'é' } })
  expect(files.find('photos/1.jpg')).toEqual({ body: { answer: 'a cat', finish_reason: 'stop' } })
  expect(files.find('c')).toEqual({ error: { status: null, code: 'batch_expired', message: 'late' } })
})

test.each([
  [[], ' has no lines'],
  [['{"custom_id": 1, "body": {}}'], ":1: Invalid 'url'"],
  // The key of the server would go to another one.
  [[request('a', { url: '@elsewhere/v1/detect' })], ":1: Invalid 'url'"],
  [[request('a'), request('b', { url: '/v1/responses' })], ":2: Invalid 'url': expected '/v1/detect'"],
  [
    [request('a'), request('a'), '{'],
    ':2: The custom_id is that of line 1; each must be used once (and 1 more problem)',
  ],
])('%j is no input of a batch', async (lines, message) => {
  const file = await save('wrong.jsonl', lines)
  await expect(openRequests(file, 0)).rejects.toThrow(`${file}${message}`)
})

test('another model is asked with the body as it is written otherwise', async () => {
  const sent: string[] = []
  const client = {
    answer: async (_: string, body: string) => {
      sent.push(body)
      return { status: 200, requestId: '', body: '{"2": 1.0, "1": 1}' }
    },
  }
  const bodies = ['{"schema": {"2": 1.0, "1": 1}, "model" : "old" }', '{ "a": "\u00e9"}', '{}']
  const lines = bodies.map((body, index) => request(`${index}`).replace(/"body":\{.*?\}/, () => `"body": ${body}`))
  using file = await openRequests(await save('requests.jsonl', lines), 0)
  expect(file.model).toBe('old')
  for (const one of file.requests) {
    const answer = file.answer(client as unknown as Parameters<typeof file.answer>[0], one, 'new "model"')
    expect(await answer).toContain('"body":{"2": 1.0, "1": 1}')
  }
  expect(sent).toEqual([
    '{"schema": {"2": 1.0, "1": 1}, "model" : "new \\"model\\"" }',
    '{"model":"new \\"model\\"", "a": "\u00e9"}',
    '{"model":"new \\"model\\""}',
  ])
})
