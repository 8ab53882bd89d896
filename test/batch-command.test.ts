import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { batch as command } from '../src/commands/batch.ts'
import { internalError } from '../src/lib/errors/errors.ts'
import { outcomeHere, outcomeOf, startLookout } from './support/command-line.ts'
import type { FakeEngine } from './support/fake-engine.ts'
import { freePort } from './support/free-port.ts'
import { KEY, startTestServer, type TestServer } from './support/server.ts'

const PICTURES = 6
const CAT = { texts: ['<point_box mention="cat"> (100,200) (500,800) </point_box>'] }

let server: TestServer
let directory: string
let environment: Record<string, string>
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-batch-'))
  server = await startTestServer()
  environment = { LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY }
  await mkdir(place('album'))
  for (let index = 0; index < PICTURES; index++) {
    const grey = sharp({ create: { width: 200, height: 100 + index, channels: 3, background: '#808080' } })
    await writeFile(place(`album/${index}.png`), await grey.png().toBuffer())
  }
})
afterAll(async () => {
  await server?.close()
  await rm(directory, { recursive: true, force: true })
})

const place = (name: string) => join(directory, name)

/** However late a test sees it, some pictures are left then. */
function answerOnly(engine: FakeEngine, works: number): void {
  const end = engine.works.length + works
  Object.defineProperty(engine, 'script', {
    get: () => (engine.works.length < end ? CAT : { ...CAT, endless: true, delayMs: 150 }),
    set: (value) => Object.defineProperty(engine, 'script', { value, writable: true }),
    configurable: true,
  })
}

const start = (...args: string[]) => startLookout(['batch', ...args], environment)
const run = (...args: string[]) => outcomeHere(command, args, environment)
/** As a user does. */
const runByProgram = (...args: string[]) => outcomeOf(start(...args))

test('that is killed goes on with the pictures that are left, behind all other requests', async () => {
  answerOnly(server.engine, 2)
  const words = [place('album/*.png'), '--detect', 'cat', '-o', place('labels.json'), '--jobs', '1']
  const before = server.engine.works.length
  const killed = start(...words)
  const journal = place('.labels.json.lookout-batch/results.jsonl')
  const done = async () => (await readFile(journal, 'utf8').catch(() => '')).split('\n').length - 2
  await expect.poll(done).toBeGreaterThanOrEqual(2)
  killed.kill('SIGKILL')
  await once(killed, 'exit')
  server.engine.script = CAT
  const had = await done()
  // As if it had been killed while it wrote.
  await writeFile(journal, '{"file":"cut', { flag: 'a' })
  const asked = server.engine.works.length - before
  const { code, stderr } = await runByProgram(...words)
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringMatching(
      new RegExp(`^${had} of ${PICTURES} pictures are done already\n6 of 6 pictures, .* a minute\n$`),
    ),
  })
  // The last request of the one that was killed may have arrived after it.
  expect(server.engine.works.length - before - asked).toBeLessThanOrEqual(PICTURES - had + 1)
  expect(server.engine.works.at(-1)!.priority).toBe('background')
  const coco = JSON.parse(await readFile(place('labels.json'), 'utf8'))
  expect(coco.images.map((image: { file_name: string }) => image.file_name)).toEqual(
    Array.from({ length: PICTURES }, (_, index) => `${index}.png`),
  )
  expect(coco.annotations[0]).toMatchObject({ image_id: 1, bbox: [20, 20, 80, 60] })
  expect((await readdir(directory)).filter((name) => name.includes('lookout-batch'))).toEqual([])
})

test('waits for a server that restarts, and asks about no picture twice', async () => {
  const address = { LOOKOUT_PORT: String(await freePort()) }
  const first = await startTestServer({ environment: address })
  answerOnly(first.engine, 2)
  const words = ['batch', place('album'), '--detect', 'cat', '-o', place('restarted.json'), '--jobs', '1']
  const child = startLookout(words, { LOOKOUT_URL: first.url, LOOKOUT_API_KEY: KEY })
  let said = ''
  child.stderr!.on('data', (bytes: Buffer) => {
    said += bytes
  })
  const ended = outcomeOf(child)
  const journal = place('.restarted.json.lookout-batch/results.jsonl')
  const done = async () => (await readFile(journal, 'utf8').catch(() => '')).split('\n').length - 2
  await expect.poll(done).toBeGreaterThanOrEqual(2)
  await first.close()
  await expect.poll(() => said).toMatch(/no server answers at \S+ \([A-Z_]+\): waiting for up to 10 min\n/)
  const had = await done()
  expect(had).toBeLessThan(PICTURES)
  const second = await startTestServer({ environment: address })
  second.engine.script = CAT
  const { code, stderr } = await ended
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining('\nthe server answers again\n') })
  expect(stderr.match(/waiting for up to/g)).toHaveLength(1)
  expect(second.engine.works.length).toBe(PICTURES - had)
  expect(JSON.parse(await readFile(place('restarted.json'), 'utf8')).images).toHaveLength(PICTURES)

  // A server that is gone for longer, and one that never was there.
  const last = startLookout([...words, '--wait', '0.1'].with(5, place('gone.json')), {
    LOOKOUT_URL: second.url,
    LOOKOUT_API_KEY: KEY,
  })
  second.engine.script = { endless: true }
  const gone = outcomeOf(last)
  await expect.poll(() => second.engine.works.length).toBeGreaterThan(PICTURES - had)
  await second.close()
  expect(await gone).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^lookout: [^\n]+ \(0 of 6 pictures are done, [^\n]+\n$/),
  })
  const never = await outcomeOf(startLookout(words, { LOOKOUT_URL: second.url, LOOKOUT_API_KEY: KEY }))
  expect(never).toMatchObject({ code: 1, stderr: expect.stringMatching(/^lookout: no server answers at [^\n]+\n$/) })
})

test('that cannot read a picture says so at the end, keeps the others, and tries it again', async () => {
  server.engine.script = { texts: ['a grey picture, "quite" empty'] }
  await mkdir(place('mixed'))
  await writeFile(place('mixed/good.png'), await readFile(place('album/0.png')))
  await writeFile(place('mixed/bad.png'), Buffer.from('\x89PNG\r\n\x1a\nbroken', 'latin1'))
  const words = [place('mixed'), '--ask', 'What is this?', '-o', place('answers.csv')]
  const failed = await runByProgram(...words)
  expect(failed.code).toBe(1)
  expect(failed.stderr).toMatch(/bad\.png is damaged\nlookout: 1 of 2 pictures could not be asked about\n$/)
  const line = `${place('mixed/good.png')},"a grey picture, ""quite"" empty"\r\n`
  expect(await readFile(place('answers.csv'), 'utf8')).toBe(`file,answer\r\n${line}`)
  await writeFile(place('mixed/bad.png'), await readFile(place('album/1.png')))
  const before = server.engine.works.length
  const again = await run(...words)
  expect(again).toMatchObject({ code: 0, stderr: expect.stringMatching(/^1 of 2 pictures are done already\n/) })
  expect(server.engine.works.length - before).toBe(1)
  expect((await readFile(place('answers.csv'), 'utf8')).split('\r\n')).toHaveLength(4)
})

test('that is stopped with Ctrl-C says how to go on, and is alone with its output until then', async () => {
  answerOnly(server.engine, 2)
  const words = [place('album'), '--detect', 'cat', '-o', place('alone.json'), '--jobs', '1']
  const first = start(...words)
  const ended = outcomeOf(first)
  const journal = place('.alone.json.lookout-batch/results.jsonl')
  const done = async () => (await readFile(journal, 'utf8').catch(() => '')).split('\n').length - 2
  await expect.poll(done).toBeGreaterThanOrEqual(2)
  first.kill('SIGSTOP')
  expect(await run(...words)).toEqual({
    code: 1,
    stdout: '',
    stderr: `lookout: -o ${place('alone.json')}: another lookout batch is writing it\n`,
  })
  first.kill('SIGINT')
  first.kill('SIGCONT')
  expect(await ended).toMatchObject({
    code: 130,
    stderr: expect.stringMatching(/^\d of 6 pictures are done, and the same command goes on from there\n$/),
  })
  // As a full disk leaves it, when there was room again for what came after.
  const [head, ...lines] = (await readFile(journal, 'utf8')).trimEnd().split('\n')
  await writeFile(journal, [head, lines[0]!.slice(0, 40) + lines.at(-1)!, ''].join('\n'))
  server.engine.script = CAT
  expect((await run(...words)).code).toBe(0)
  expect(JSON.parse(await readFile(place('alone.json'), 'utf8')).images).toHaveLength(PICTURES)
})

test('asks about what it can of a folder and of a pattern, and names the others', async () => {
  server.engine.script = { texts: ['grey'] }
  const folder = place('odd, été 猫')
  await mkdir(join(folder, 'within'), { recursive: true })
  await writeFile(join(folder, 'good.png'), await readFile(place('album/0.png')))
  await writeFile(join(folder, 'empty.jpg'), '')
  await symlink('nowhere', join(folder, 'gone.png'))
  await writeFile(join(folder, 'notes.txt'), 'Nothing to see.')
  const wanted = ['--ask', 'What is this?', '-o']
  const inFolder = await runByProgram(folder, ...wanted, place('folder.csv'))
  expect(inFolder.code).toBe(1)
  expect(inFolder.stderr).toMatch(
    /empty\.jpg is empty\n.*gone\.png cannot be read: ENOENT\n.*2 of 3 pictures could not be/s,
  )
  expect(inFolder.stderr).not.toContain('notes.txt')
  const byPattern = await run(join(folder, '*'), ...wanted, place('missing/folder/pattern.csv'))
  expect(byPattern.stderr).toMatch(/notes\.txt is of an unknown type.*3 of 4 pictures could not be/s)
  expect(byPattern.stderr).not.toContain('within')
  expect(await readFile(place('missing/folder/pattern.csv'), 'utf8')).toBe(
    `file,answer\r\n"${join(folder, 'good.png')}",grey\r\n`,
  )
})

test.each(['a pattern', 'a shell’s pattern'])('goes on with %s that its own output fits', async (kind) => {
  server.engine.script = { texts: ['grey'] }
  await mkdir(place('own'), { recursive: true })
  await writeFile(place('own/good.png'), await readFile(place('album/0.png')))
  await writeFile(place('own/later.png'), '')
  const output = place(`own/${kind}.csv`)
  const run = async () => {
    const names = (await readdir(place('own'))).filter((name) => !name.startsWith('.'))
    const pattern = kind === 'a pattern' ? [place('own/*')] : names.map((name) => place(`own/${name}`))
    return outcomeHere(command, [...pattern, '--ask', 'What is this?', '-o', output], environment)
  }
  expect((await run()).stderr).toMatch(/later\.png is empty\nlookout: 1 of 2 pictures could not be/)
  await writeFile(place('own/later.png'), await readFile(place('album/1.png')))
  expect(await run()).toMatchObject({ code: 0, stderr: expect.stringMatching(/^1 of 2 pictures are done/) })
  expect((await readFile(output, 'utf8')).match(/grey/g)).toHaveLength(2)
  await rm(place('own'), { recursive: true })
})

test('goes on with a shell’s pattern that its own folder of labels fits', async () => {
  server.engine.script = CAT
  await mkdir(place('own'))
  for (const number of [0, 1]) {
    await writeFile(place(`own/${number}.png`), await readFile(place(`album/${number}.png`)))
    const words = (await readdir(place('own'))).map((name) => place(`own/${name}`))
    expect(await run(...words, '--detect', 'cat', '-o', place('own/set/'))).toMatchObject({ code: 0 })
  }
  expect((await readdir(place('own/set/labels'))).sort()).toEqual(['0.txt', '1.txt'])
  await rm(place('own'), { recursive: true })
})

test('goes on behind a picture that the server fails at, and ends when it fails at all of them', async () => {
  let asked = 0
  const broken = internalError(new Error('broken'))
  server.engine.script = { texts: ['grey'], refusal: () => (asked++ === 1 ? broken : undefined) }
  const words = [place('album'), '--ask', 'What is this?', '-o', place('faults.jsonl'), '--jobs', '1']
  const once = await run(...words)
  expect(once.stderr).toMatch(/1\.png: Internal error\nlookout: 1 of 6 pictures could not be asked about\n$/)
  expect((await readFile(place('faults.jsonl'), 'utf8')).trimEnd().split('\n')).toHaveLength(PICTURES - 1)
  server.engine.script = { refusal: broken }
  const before = server.engine.works.length
  const all = await run(...words.with(-3, place('none.jsonl')))
  expect(all).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^lookout: Internal error \(0 of 6 pictures are done/),
  })
  expect(server.engine.works.length - before).toBe(5)
})

test('writes a folder for YOLO, and a line for each picture as JSON Lines', async () => {
  server.engine.script = CAT
  expect((await run(place('album'), '--detect', 'dog,cat', '-o', place('yolo/'))).code).toBe(0)
  expect((await readdir(place('yolo'))).sort()).toEqual(['classes.txt', 'data.yaml', 'images', 'labels', 'train.txt'])
  expect(await readFile(place('yolo/labels/0.txt'), 'utf8')).toMatch(/^1 0\.30* 0\.50* 0\.40* 0\.60*\n/)
  expect((await run(place('album/0.png'), '--detect', 'cat', '-o', place('one.jsonl'))).code).toBe(0)
  const [row] = (await readFile(place('one.jsonl'), 'utf8')).trimEnd().split('\n')
  expect(JSON.parse(row!)).toMatchObject({
    file: place('album/0.png'),
    width: 200,
    height: 100,
    detections: [{ mention: 'cat' }],
  })
})

test('says how likely each object is to be right', async () => {
  server.engine.script = CAT
  const words = [place('album/0.png'), '--detect', 'cat', '-o']
  expect(await run(...words, place('rated.csv'), '--confidence')).toMatchObject({ code: 0 })
  expect(await readFile(place('rated.csv'), 'utf8')).toMatch(
    /^file,label,left,top,right,bottom,confidence\r\n.+,cat,20,20,100,80,0\.\d{3}\r\n$/,
  )
  expect(await run(...words, place('rated.jsonl'), '--min-confidence', '1')).toMatchObject({ code: 0 })
  expect(JSON.parse(await readFile(place('rated.jsonl'), 'utf8'))).toMatchObject({
    detections: [],
    categories: [{ mention: 'cat', complete: expect.any(Number) }],
    confidence: { calibrated: true },
  })
})

const request = (id: string, fields: object = {}) =>
  JSON.stringify({
    custom_id: id,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'yesterday', messages: [{ role: 'user', content: id }], ...fields },
  })
const save = async (name: string, lines: readonly string[]) => {
  await writeFile(place(name), lines.map((line) => `${line}\n`).join(''))
  return place(name)
}
/** A line of an output. */
const result = (id: string, body: object, status = 200) =>
  JSON.stringify({
    id: `of ${id}`,
    custom_id: id,
    response: { status_code: status, request_id: '', body },
    error: null,
  })

test('sends the requests of a batch to another model, and says what has changed since', async () => {
  const input = await save('requests.jsonl', [request('one'), request('two', { stream: true }), request('three')])
  const words = [input, '--model', 'service-mk1.5', '--jobs', '1']
  server.engine.script = { texts: ['a red circle'] }
  const first = await run(...words, '-o', place('old.jsonl'))
  expect({ code: first.code, stdout: first.stdout }).toEqual({ code: 0, stdout: '' })
  const lines = (await readFile(place('old.jsonl'), 'utf8')).trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    {
      id: expect.stringMatching(/^batch_req_/),
      custom_id: 'one',
      response: {
        status_code: 200,
        request_id: expect.stringMatching(/./),
        body: expect.objectContaining({ object: 'chat.completion', model: 'service-mk1.5' }),
      },
      error: null,
    },
    expect.objectContaining({ custom_id: 'two', response: expect.objectContaining({ status_code: 400 }) }),
    expect.objectContaining({ custom_id: 'three' }),
  ])

  let asked = 0
  const broken = internalError(new Error('broken'))
  const { length } = server.engine.works
  server.engine.script = { texts: ['a red star'], refusal: () => (asked++ === 0 ? broken : undefined) }
  const against = [...words, '-o', place('new.jsonl'), '--against', place('old.jsonl')]
  expect(await run(...against)).toEqual({
    code: 1,
    stdout: `one: no error before, server_error "Internal error" now
three: reply differs at word 3: "circle" before, "star" now

2 of 3 requests have other results
texts: 0 of 1 the same
errors: 1 new, 0 gone, 0 other ones, 1 the same
`,
    stderr: expect.stringMatching(/one: Internal error\nlookout: 1 of 3 requests were not answered\n$/),
  })
  // The same command asks again only what has failed.
  server.engine.script = { texts: ['a red circle'] }
  expect(await run(...against)).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^three: .*\n\n1 of 3 requests have other results\n/),
    stderr: expect.stringMatching(/^2 of 3 requests are done already\n/),
  })
  expect(server.engine.works.length - length).toBe(3)
  expect(server.engine.works.at(-1)!.priority).toBe('background')
  expect(await run(place('old.jsonl'), '--against', place('old.jsonl'))).toEqual({
    code: 0,
    stdout: `3 of 3 requests have the same results
texts: 2 of 2 the same
errors: 0 new, 0 gone, 0 other ones, 1 the same
`,
    stderr: '',
  })
})

test('compares pictures with an older output too', async () => {
  server.engine.script = CAT
  const words = [place('album/0.png'), '--detect', 'cat']
  expect((await run(...words, '-o', place('older.jsonl'))).code).toBe(0)
  server.engine.script = { texts: ['<point_box mention="cat"> (100,200) (500,700) </point_box>'] }
  expect(await run(...words, '-o', place('newer.jsonl'), '--against', place('older.jsonl'))).toMatchObject({
    code: 1,
    stdout: `${place('album/0.png')}: cat: 1 of 1 moved, mean IoU 0.833

1 of 1 requests have other results
PLACES  MATCHED  MOVED  ONLY BEFORE  ONLY NOW  MEAN IOU
cat     1        1      0            0         0.833
`,
  })
})

const chat = (message: object, fields: object = {}) => ({
  ...{ object: 'chat.completion', id: `chatcmpl-${Math.random()}`, model: 'one', usage: { total_tokens: 1 } },
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop' }],
  ...fields,
})
const call = (given: string) => ({
  content: null,
  tool_calls: [{ id: `${Math.random()}`, type: 'function', function: { name: 'look', arguments: given } }],
})
const point = (x: number, y: number) => ({ mention: 'bolt', point: { x, y } })

test('compares each kind of reply by its own measure', async () => {
  const decided = (red: number, there: number) => ({
    answers: [
      {
        ...{ name: 'colour', type: 'choice', choice: red > 0.5 ? 'red' : 'blue', confidence: 1 },
        probabilities: [
          { value: 'red', probability: red },
          { value: 'blue', probability: 1 - red },
        ],
      },
      { name: null, type: 'predicate', probability: there },
    ],
  })
  const looked = (...texts: string[]) => ({
    object: 'chat.completion.multilook',
    results: texts.map((content, index) => ({
      prompt_index: index,
      ...chat({ content }),
      completions: chat({ content }).choices,
    })),
  })
  const logged = (logprob: number) => {
    const [choice] = chat({ content: 'yes' }).choices
    return chat({}, { choices: [{ ...choice, logprobs: { content: [{ token: 'yes', logprob }] } }] })
  }
  const pairs: Readonly<Record<string, readonly [object, object, string | null]>> = {
    equal: [chat({ content: 'a cat' }), chat({ content: 'a cat' }, { model: 'two', system_fingerprint: 'f' }), null],
    'JSON of equal value': [chat({ content: '{"a": 1, "b": [2]}' }), chat({ content: '{"b":[2],"a":1.0}' }), null],
    JSON: [
      chat({ content: '{"a": [{"b": 12345678901234567890}], "c": 1}' }),
      chat({ content: '{"a": [{"b": 12345678901234567891}]}' }),
      'reply a[0].b: "12345678901234567890" before, "12345678901234567891" now, reply c: 1 before, nothing now',
    ],
    'equal calls': [chat(call('{"a": 1}')), chat(call('{"a":1}')), null],
    calls: [chat(call('{"a": 1}')), chat(call('{"a": 2}')), 'tool calls [0].arguments.a: 1 before, 2 now'],
    'call gone': [chat(call('{}')), chat({ content: 'no' }), 'tool calls only before; reply only now'],
    points: [
      { detections: [point(1, 1), point(50, 50)] },
      { detections: [point(53, 54), point(1, 1), point(9, 9)] },
      'bolt: 1 of 2 moved, mean distance 2.500, 1 only now',
    ],
    decisions: [
      decided(0.6, 0.25),
      decided(0.4, 0.5),
      'colour: red before, blue now, probabilities changed by up to 0.200; question 2: no before, yes now, probabilities changed by up to 0.250',
    ],
    multilook: [
      looked('same', 'a b c'),
      looked('same', 'a x c'),
      'prompt 2 reply differs at word 2: "b c" before, "x c" now',
    ],
    places: [
      chat({ content: 'Here: <polygon mention="lid"> (0,0) (100,0) (100,100) </polygon>' }),
      chat({ content: 'Here: <polygon mention="lid"> (0,0) (100,0) (100,80) </polygon>' }),
      'lid: 1 of 1 moved, mean IoU 0.800',
    ],
    probabilities: [logged(-0.5), logged(-0.25), 'reply: log-probabilities of 1 tokens changed by up to 0.250'],
    messages: [
      { type: 'message', id: '1', content: [{ type: 'text', text: 'a' }], stop_reason: 'end_turn' },
      { type: 'message', id: '2', content: [{ type: 'text', text: 'b' }], stop_reason: 'end_turn' },
      'reply differs at word 1: "a" before, "b" now',
    ],
    unknown: [
      { id: 1, data: [Number.POSITIVE_INFINITY, null] },
      { id: 2, data: [0, null] },
      'response data[0]: Infinity before, 0 now',
    ],
    'line\nbreak\u001b[31m': [{ data: '\u001b' }, { data: 1 }, 'response data: "\\u001b" before, 1 now'],
  }
  const names = Object.keys(pairs)
  const before = names.map((name) => result(name, pairs[name]![0]).replace('[null,null]', '[1e400,null]'))
  const old = await save('before.jsonl', [...before, result('gone', {})])
  const oldErrors = await save('before-errors.jsonl', [result('mended', { error: { message: 'no', code: 'c' } }, 400)])
  const now = [...names.map((name) => result(name, pairs[name]![1])), result('mended', {})]
  const words = [await save('now.jsonl', now.reverse()), '--against', old, '--against', oldErrors]
  const { code, stdout, stderr } = await run(...words)
  expect({ code, stderr }).toEqual({ code: 1, stderr: '' })
  const [changes, summary] = stdout.split('\n\n') as [string, string]
  const said = names.flatMap((name) => (pairs[name]![2] === null ? [] : [`${name}: ${pairs[name]![2]}`]))
  expect(changes.split('\n').sort()).toEqual(
    [
      ...said.map((line) => line.replace('\n', ' ').replace('\u001b', '\ufffd')),
      'mended: 400 c "no" before, no error now',
      'gone: only before',
    ].sort(),
  )
  expect(summary).toMatch(/^12 of 15 requests have other results\nmodel: one before, one, two now\n/)
  expect(summary).toContain('system_fingerprint: none before, f now\nrequests: 1 only before, 0 only now\n')
  expect(summary).toContain('choices: 2 of 2 changed\nprobabilities: changed by 0.217 on average, 0.250 at most\n')
  expect(summary).toContain('errors: 0 new, 1 gone, 0 other ones, 0 the same\n')

  const json = (await run(...words, '--json')).stdout.trimEnd().split('\n')
  const parsed = json.map((line) => JSON.parse(line))
  expect(parsed.at(-1)!.summary).toMatchObject({
    compared: 15,
    changed: 12,
    only_before: 1,
    texts: { compared: 6, same: 4 },
  })
  expect(
    parsed
      .slice(0, -1)
      .map(({ id }) => id)
      .sort(),
  ).toEqual([...names.filter((name) => pairs[name]![2] !== null), 'mended', 'gone'].sort())
})

test.each([
  [['--detect', 'cat'], /^lookout: -o: expected a file or a folder/],
  [['-o', 'out.json'], /^lookout: expected either --detect or --ask/],
  [['--ask', 'What?', '-o', 'out.json'], /answers are written as \.jsonl or \.csv/],
  [['--ask', 'x', '-o', 'out.csv', '--thorough'], /^lookout: --confidence, --thorough .* need --detect/],
  [['--detect', 'cat', '-o', 'out.txt'], /expected a file that ends with/],
  [['--detect', 'cat', '--format', 'yolo', '-o', 'out.json'], /must be a folder/],
  [['--detect', 'cat', '-o', 'out.json', '--jobs', '0'], /^lookout: --jobs: expected a whole number/],
  [['--detect', 'cat', '-o', '/proc/none/out.json'], /^lookout: .*\/proc\/none/],
])('%j is refused before anything is asked', async (args, message) => {
  const before = server.engine.works.length
  const { code, stderr } = await run(place('album'), ...args)
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(message) })
  expect(server.engine.works.length).toBe(before)
})

test.each([
  [['-o', 'out.csv'], [request('a')], /results of requests are written as \.jsonl/],
  [['-o', 'out.jsonl', '--json'], [request('a')], /--against is missing/],
  [[], [result('a', {})], /has results: name older ones with --against/],
  [['--against', 'package.json'], [result('a', {})], /package\.json:1: the line is cut off/],
])('a file with %j is refused', async (args, lines, message) => {
  const { code, stdout, stderr } = await run(await save('refused.jsonl', lines), ...args)
  expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(message) })
})
