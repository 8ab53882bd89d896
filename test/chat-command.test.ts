import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { createServer as createTlsServer } from 'node:tls'
import sharp from 'sharp'
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { LookoutClient } from '../src/client/client.ts'
import { chat as command } from '../src/commands/chat.ts'
import { DEMONSTRATION_NOTE } from '../src/config/shipped-model.ts'
import type { Work } from '../src/inference/contract/work.ts'
import { internalError, invalidRequest } from '../src/lib/errors/errors.ts'
import { bareEnvironment, type Outcome, outcomeHere, outcomeOf, startLookout } from './support/command-line.ts'
import { ModelStore } from './support/model-store.ts'
import { makePdf } from './support/pdf.ts'
import { CERTIFICATE } from './support/secure-camera.ts'
import { KEY, startTestServer, type TestServer } from './support/server.ts'
import { TERMINAL } from './support/terminal.ts'
import { makeTiff } from './support/tiff.ts'

const SHAPES = 'docs/pictures/shapes.png'
let server: TestServer
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-chat-'))
  server = await startTestServer()
})
afterAll(async () => {
  await server?.close()
  await rm(directory, { recursive: true, force: true })
})
beforeEach(() => {
  server.engine.script = { texts: ['Hello', ' there.'] }
  server.engine.works.length = 0
})

const place = (name: string) => join(directory, name)

const settings = () => ({ LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY })

const chat = (args: readonly string[], environment: Record<string, string> = {}): Promise<Outcome> =>
  outcomeHere(command, args, { ...settings(), ...environment })

/** As a user does. */
const chatByProgram = (args: readonly string[], input = ''): Promise<Outcome> =>
  outcomeOf(startLookout(['chat', ...args], settings()), input)

/** The texts of a prompt; `*` for each picture or sound. */
function promptOf({ prefix, branches: [branch] }: Work): string {
  return [...prefix, ...branch!.suffix].map((part) => (part.type === 'text' ? part.text : '*')).join('')
}

/** A picture that does not fit into a request: zeros behind its end make it large. */
async function largePicture(name: string): Promise<string> {
  await writeFile(place(name), Buffer.concat([await readFile(SHAPES), Buffer.alloc(12 * 2 ** 20)]))
  return place(name)
}

/** Which of the server's files have a name: other tests have files of their own meanwhile. */
async function stored(name: string): Promise<string[]> {
  const files = (await (await server.get('/v1/files')).json()) as { data: { filename: string }[] }
  return files.data.map(({ filename }) => filename).filter((filename) => filename === name)
}

describe('chat with a server', () => {
  test('sends the picture and the question, and prints the reply', async () => {
    const run = await chatByProgram([
      SHAPES,
      'What is this?',
      '--system',
      'Be brief.',
      '--max-tokens',
      '7',
      '--temperature',
      '0.5',
    ])
    expect(run).toEqual({ code: 0, stdout: 'Hello there.\n', stderr: '' })
    const [work] = server.engine.works
    expect(promptOf(work!)).toMatch(/Be brief\.[\s\S]*\*[\s\S]*What is this\?/)
    expect(work!.branches[0]).toMatchObject({ maxTokens: 7, sampling: { temperature: 0.5 } })
  })

  test('prints each piece when it comes', async () => {
    server.engine.script = { texts: ['one ', 'two '], endless: true, delayMs: 20 }
    const child = startLookout(['chat', 'Count.'], { LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY })
    for await (const data of child.stdout!.setEncoding('utf8')) if (String(data).includes('two')) break
    // The reader has left: breaking out of the loop closed the pipe.
    expect(await once(child, 'exit')).toEqual([0, null])
    expect(await text(child.stderr!)).toBe('')
    await expect.poll(() => server.engine.aborts).toHaveLength(1)
  })

  test('takes a model by its name, several files, and text from standard input', async () => {
    const run = await chatByProgram(['service-mk1', SHAPES, SHAPES, '-', 'Summarise:', '--json'], 'the text\n')
    expect(JSON.parse(run.stdout)).toEqual({
      model: 'service-mk1',
      files: [SHAPES, SHAPES],
      reply: 'Hello there.',
      annotations: [],
      finish_reason: 'stop',
      usage: expect.objectContaining({ completion_tokens: 2 }),
    })
    expect(promptOf(server.engine.works[0]!)).toMatch(/\*[\s\S]*\*[\s\S]*Summarise:\n\nthe text/)
  })

  describe('a picture with several pages', () => {
    const size = { width: 128, height: 96 }
    const page = (...colour: number[]) =>
      Uint8Array.from({ length: size.width * size.height * 3 }, (_, i) => colour[i % 3]!)
    /** The pixel in the middle of the picture that the model was shown. */
    const shown = (share = 0.5, work = server.engine.works.at(-1)!) => {
      const part = work.prefix.find(({ type }) => type === 'image')
      if (part?.type !== 'image') throw new Error('The model was shown no picture')
      const { width, height, data } = part.image
      const at = (Math.floor(height / 2) * width + Math.floor(width * share)) * 3
      return [...data.subarray(at, at + 3)]
    }
    const pictures: [string, () => Promise<Uint8Array>, RegExp][] = [
      [
        'three.tif',
        async () => makeTiff({ ...size, channels: 3, pages: [page(200, 0, 0), page(0, 0, 200), page(0, 200, 0)] }),
        /three\.tif has 3 pages, of which only the first is looked at: --page N takes another\n$/,
      ],
      [
        'two.gif',
        async () => (await animation()).gif().toBuffer(),
        /two\.gif has 2 pages, of which only the first is looked at: --page N takes another\n$/,
      ],
      [
        'two.webp',
        async () => (await animation()).webp({ lossless: true }).toBuffer(),
        /^An image is an animation of 2 frames, of which only the first is looked at\n$/,
      ],
    ]
    async function animation() {
      const colours = ['#c80000', '#0000c8'].map((background) =>
        sharp({ create: { ...size, channels: 3, background } })
          .png()
          .toBuffer(),
      )
      return sharp(await Promise.all(colours), { join: { animated: true } })
    }

    test.each(pictures)(
      '%s: the first is shown, which is said, or the one that --page names',
      async (name, make, said) => {
        await writeFile(place(name), await make())
        const first = await chat([place(name), 'What is this?'])
        expect(first).toMatchObject({ code: 0, stderr: expect.stringMatching(said) })
        expect(shown()).toEqual([200, 0, 0])
        expect(await chat([place(name), 'What is this?', '--page', '2'])).toMatchObject({ code: 0, stderr: '' })
        expect(shown()).toEqual([0, 0, 200])
        const beyond = await chat([place(name), 'What is this?', '--page', '9'])
        expect(beyond).toMatchObject({ code: 1, stderr: expect.stringMatching(/has no page 9/) })
      },
    )

    test('one page needs no note, and a page of a text is not taken in silence', async () => {
      await writeFile(place('one.tif'), makeTiff({ ...size, channels: 3, pages: [page(9, 9, 9)] }))
      expect((await chat([place('one.tif'), 'What is this?'])).stderr).toBe('')
      const sound = await chat(['docs/pictures/words.mp3', 'What is said?', '--page', '1'])
      expect(sound).toMatchObject({ code: 1, stderr: expect.stringMatching(/has no pages/) })
    })

    test('a TIFF of measurements is spread over the shades', async () => {
      const depths = {
        floats: [Float32Array, (x: number) => x],
        'floats beyond 1': [Float32Array, (x: number) => x * 2000 - 500],
        'floats with gaps': [Float32Array, (x: number) => (x < 0.01 ? Number.NaN : x)],
        '12 bits in 16': [Uint16Array, (x: number) => x * 4095],
        '16 bits': [Uint16Array, (x: number) => x * 65_535],
        '16 bits with a sign': [Int16Array, (x: number) => x * 2000 - 1000],
      } as const
      const ramp = Array.from({ length: size.width * size.height }, (_, i) => (i % size.width) / (size.width - 1))
      await mkdir(place('depths'))
      for (const [name, [Samples, value]] of Object.entries(depths)) {
        const tiff = makeTiff({ ...size, channels: 1, pages: [Samples.from(ramp.map(value))] })
        await writeFile(place(`depths/${name}.tif`), tiff)
      }
      expect(await chat([place('depths'), 'What is this?'])).toMatchObject({ code: 0, stderr: '' })
      expect(server.engine.works).toHaveLength(Object.keys(depths).length)
      for (const work of server.engine.works) {
        for (const share of [0.1, 0.5, 0.9]) expect(Math.abs(shown(share, work)[0]! - share * 255)).toBeLessThan(6)
      }
    })

    test('of 16 bits with a profile has its colours, for the model and in the drawing', async () => {
      const samples = Uint16Array.from(page(200, 50, 50), (value) => value * 257)
      // The library takes 16 bits to be Display P3 already.
      const wide = sharp(samples, { raw: { ...size, channels: 3 } })
        .toColourspace('rgb16')
        .withIccProfile('p3')
      await wide.clone().tiff({ compression: 'lzw' }).toFile(place('wide.tif'))
      await wide.clone().png().toFile(place('wide.png'))
      const drawn = async () => [...(await sharp(place('drawn-wide.png')).raw().toBuffer()).subarray(0, 3)]
      for (const name of ['wide.tif', 'wide.png']) {
        const run = await chat([place(name), 'Where?', '--boxes', '-o', place('drawn-wide.png')])
        expect(run).toMatchObject({ code: 0 })
        // By the matrices of Display P3 and sRGB.
        for (const colour of [shown(), await drawn()]) {
          for (const [index, value] of [218, 24, 40].entries()) expect(Math.abs(colour[index]! - value)).toBeLessThan(3)
        }
      }
    })

    test('a TIFF of near infrared beside colours shows the colours', async () => {
      const samples = new Uint8Array(size.width * size.height * 4)
      for (let red = 0; red < samples.length; red += 4) samples[red] = 200
      await writeFile(place('infrared.tif'), makeTiff({ ...size, channels: 4, pages: [samples], extra: 0 }))
      expect(await chat([place('infrared.tif'), 'What is this?'])).toMatchObject({ code: 0, stderr: '' })
      expect(shown()).toEqual([200, 0, 0])
    })
  })

  test('draws the places of the reply, which --json has in pixels', async () => {
    const reply =
      '<collection mention="shape"><point_box> (0,0) (500,500) </point_box><point> (750,750) </point></collection>' +
      '<polygon mention="tri"> (600,100) (900,100) (750,400) </polygon>'
    server.engine.script = { texts: [reply] }
    const drawn = place('drawn.png')
    const run = await chat([SHAPES, 'Where?', '--boxes', '--json', '-o', drawn])
    expect(JSON.parse(run.stdout).annotations).toEqual([
      {
        kind: 'box',
        mention: 'shape',
        file: SHAPES,
        points: [
          [0, 0],
          [256, 192],
        ],
      },
      { kind: 'point', mention: 'shape', file: SHAPES, points: [[384, 288]] },
      {
        kind: 'polygon',
        mention: 'tri',
        file: SHAPES,
        points: [
          [307, 38],
          [461, 38],
          [384, 154],
        ],
      },
    ])
    const at = async (left: number, top: number) => [
      ...(await sharp(drawn).extract({ left, top, width: 1, height: 1 }).removeAlpha().raw().toBuffer()),
    ]
    expect(await at(256, 100)).toEqual([0xff, 0x3b, 0x30])
    expect(await at(384, 288)).toEqual([0xff, 0x3b, 0x30])
    expect(await at(440, 38)).toEqual([0x0a, 0x84, 0xff])
  })

  test('asks about each picture in a folder, also one that is no PNG, JPEG or WebP', async () => {
    await mkdir(place('folder'))
    const grey = sharp({ create: { width: 40, height: 30, channels: 3, background: '#808080' } })
    await writeFile(place('folder/a.gif'), await grey.gif().toBuffer())
    await writeFile(place('folder/b.png'), await grey.png().toBuffer())
    const run = await chat([place('folder'), 'What?', '-o', place('out/')])
    expect(run.stdout).toBe(`${place('folder/a.gif')}:\nHello there.\n\n${place('folder/b.png')}:\nHello there.\n`)
    expect(run.code).toBe(0)
    expect((await readdir(place('out'))).sort()).toEqual(['a.png', 'b.png'])
    // A picture this small is enlarged for its labels.
    expect(await sharp(await readFile(place('out/a.png'))).metadata()).toMatchObject({ width: 400, height: 300 })
  })

  test('an array of replies has its end, also where the server fails', async () => {
    await mkdir(place('failing'))
    for (const name of ['1.png', '2.png', '3.png']) await writeFile(place(`failing/${name}`), await readFile(SHAPES))
    let asked = 0
    const errors = [undefined, internalError(new Error('broken')), undefined]
    server.engine.script = { texts: ['Hello'], refusal: () => errors[asked++] }
    const one = await chat([place('failing'), 'What?', '--json'])
    expect(one.stderr).toMatch(/2\.png: Internal error\nlookout: 1 of 3 pictures could not be asked about\n$/)
    expect(JSON.parse(one.stdout)).toHaveLength(2)
    asked = 0
    errors[1] = invalidRequest('Gone', 'model')
    const all = await chat([place('failing'), 'What?', '--json'])
    expect(all).toMatchObject({ code: 1, stderr: `lookout: ${place('failing/2.png')}: Gone (1 of 3 are done)\n` })
    expect(JSON.parse(all.stdout)).toHaveLength(1)
  })

  test('what does not fit into a request is uploaded, and removed afterwards', async () => {
    const large = await largePicture('large.png')
    expect(await chat([large, 'What?'])).toMatchObject({ code: 0, stdout: 'Hello there.\n' })
    expect(await stored('large.png')).toEqual([])
  })

  test.each<[string, (picture: string) => readonly string[]]>([
    ['chat', (picture) => ['chat', picture, 'What?']],
    ['detect', (picture) => ['detect', picture, 'cat']],
    ['decide', (picture) => ['decide', picture, 'Is it?']],
    ['batch', (picture) => ['batch', picture, '--ask', 'What?', '-o', `${picture}.csv`]],
    ['calibrate', (picture) => ['calibrate', `${picture}.jsonl`]],
  ])('Ctrl-C while %s waits removes what it has uploaded', async (command, words) => {
    const name = `${command}-large.png`
    const large = await largePicture(name)
    await writeFile(`${large}.jsonl`, JSON.stringify({ file: name, instructions: 'Is it?', answer: true }))
    server.engine.script = { texts: ['Hello'], endless: true, delayMs: 50, begins: new Promise(() => {}) }
    server.engine.readWorks.length = 0
    const child = startLookout(words(large), { LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY })
    const ended = outcomeOf(child)
    await expect.poll(() => server.engine.works.length + server.engine.readWorks.length).toBe(1)
    expect(await stored(name)).toEqual([name])
    child.kill('SIGINT')
    expect((await ended).code).toBe(130)
    expect(await stored(name)).toEqual([])
  })

  test('Ctrl-C removes a file whose upload is under way', async () => {
    const pictures = [await largePicture('uploaded.png'), await largePicture('uploading.png')]
    const released = Promise.withResolvers<void>()
    let uploads = 0
    const proxy = createServer(async (request, response) => {
      // The first file is removed when the command has seen the signal.
      if (request.method === 'DELETE') released.resolve()
      const isUpload = request.method === 'POST' && request.url === '/v1/files'
      const answer = await fetch(server.url + request.url, {
        method: request.method!,
        headers: {
          authorization: `Bearer ${KEY}`,
          ...(isUpload ? { 'content-type': request.headers['content-type']! } : {}),
        },
        body: isUpload ? await buffer(request) : null,
      })
      const body = await answer.text()
      if (isUpload && ++uploads === 2) {
        child.kill('SIGINT')
        await released.promise
      }
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(body)
    }).listen(0)
    onTestFinished(() => void proxy.close())
    const { port } = proxy.address() as AddressInfo
    const environment = { LOOKOUT_URL: `http://127.0.0.1:${port}`, LOOKOUT_API_KEY: KEY }
    const child = startLookout(['chat', ...pictures, 'What?'], environment)
    expect(await outcomeOf(child)).toEqual({ code: 130, stdout: '', stderr: '' })
    expect(uploads).toBe(2)
    expect([...(await stored('uploaded.png')), ...(await stored('uploading.png'))]).toEqual([])
  })

  test('takes a PDF, whose pages its places name', async () => {
    const report = place('report.pdf')
    await writeFile(report, makePdf([{}, {}, {}]))
    const box = '<point_box mention="seal" asset_idx="1"> (100,200) (300,400) </point_box>'
    server.engine.script = { texts: [box] }
    const all = await chat([report, '--json'])
    expect(promptOf(server.engine.works.at(-1)!)).toMatch(/\*\*\*[\s\S]*What is in this document\?/)
    const found = {
      kind: 'box',
      mention: 'seal',
      file: report,
      grid_points: [
        [100, 200],
        [300, 400],
      ],
    }
    expect(JSON.parse(all.stdout).annotations).toEqual([{ ...found, page: 2 }])
    const some = await chat([report, '--json', '--page', '3,1'])
    expect(promptOf(server.engine.works.at(-1)!)).toMatch(/[^*]\*\*[^*]/)
    expect(JSON.parse(some.stdout).annotations).toEqual([{ ...found, page: 1 }])
    const none = await chat([report, 'Hi', '--page', '4'])
    expect(none.stderr).toContain(`${report}: page names page 4, but the document has 3`)
    expect((await chat([SHAPES, 'Hi', '--page', '1-2'])).stderr).toContain('--page takes one number')
  })

  test('an error in the middle of a reply is one line', async () => {
    server.engine.script = { texts: ['Hel'], failure: new Error('broken') }
    expect(await chatByProgram(['Hi there'])).toEqual({ code: 1, stdout: 'Hel', stderr: 'lookout: Internal error\n' })
  })

  test.each([
    [[], {}, /^expected a question, as in: lookout chat picture\.jpg "What is in this image\?"/],
    [['docs/pictures', SHAPES, 'What?'], {}, /^a folder is asked about picture by picture/],
    [['Hi', '--boxes', '--points'], {}, /^expected only one of --points and --boxes/],
    [['Hi', '-o', 'a.txt'], {}, /^-o a\.txt: expected a file that ends with \.png/],
    [['Hi'], { LOOKOUT_API_KEY: 'wrong' }, /does not know this key/],
    [['Hi'], { LOOKOUT_URL: 'http://127.0.0.1:1' }, /^no server answers at http:\/\/127\.0\.0\.1:1 \(/],
    [['Hi'], { LOOKOUT_URL: 'http://me:secret@127.0.0.1:1' }, /^LOOKOUT_URL: the address may hold no login; the key/],
    [['Hi'], { LOOKOUT_URL: 'htp://me:secret@host' }, /^LOOKOUT_URL: expected .*, not 'htp:\/\/\*{3}@host'$/],
  ] as [string[], Record<string, string>, RegExp][])(
    'refuses %j %j in one line',
    async (args, environment, message) => {
      const { code, stdout, stderr } = await chat(args, environment)
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(/^lookout: [^\n]+\n$/)
      expect(stderr.slice('lookout: '.length, -1)).toMatch(message)
    },
  )

  test('of several files, the one at fault is named', async () => {
    const broken = place('broken.png')
    await writeFile(broken, (await readFile(SHAPES)).subarray(0, 3000))
    const run = await chat([SHAPES, broken, 'What is it?'])
    expect(run).toEqual({ code: 1, stdout: '', stderr: `lookout: ${broken}: The image is damaged or truncated\n` })
  })

  test('without an address, asks the server that runs with the settings', async () => {
    const { hostname, port } = new URL(server.url)
    const run = await chat(['Hi there'], { LOOKOUT_URL: '', LOOKOUT_HOST: hostname, LOOKOUT_PORT: port })
    expect(run).toEqual({ code: 0, stdout: 'Hello there.\n', stderr: '' })
  })
})

test('an answer may take as long as the server takes, which is more than others wait for', async () => {
  const held = Promise.withResolvers<ServerResponse>()
  const slow = createServer((request, response) => {
    if (request.url === '/v1/decisions') held.resolve(response)
  }).listen(0, '127.0.0.1')
  await once(slow, 'listening')
  const dispatcher = getGlobalDispatcher()
  setGlobalDispatcher(new Agent({ headersTimeout: 50, bodyTimeout: 50 }))
  onTestFinished(() => {
    setGlobalDispatcher(dispatcher)
    slow.closeAllConnections()
    slow.close()
  })
  const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`
  const answers = new LookoutClient({ url, key: null }).decide({})
  const response = await Promise.race([held.promise, answers as Promise<never>])
  // It is asked later, and has given up.
  await expect(fetch(url)).rejects.toMatchObject({ cause: { code: 'UND_ERR_HEADERS_TIMEOUT' } })
  response.write('{"answers": ')
  response.end('[]}')
  expect(await answers).toEqual([])
})

test('a server whose certificate is not trusted is not one that is away', async () => {
  const secure = createTlsServer({ key: CERTIFICATE, cert: CERTIFICATE }).listen(0, '127.0.0.1')
  onTestFinished(() => void secure.close())
  await once(secure, 'listening')
  const url = `https://127.0.0.1:${(secure.address() as AddressInfo).port}`
  expect(await chat(['Hi there'], { LOOKOUT_URL: url })).toEqual({
    code: 1,
    stdout: '',
    stderr: `lookout: the certificate of the server at ${url} is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT): to trust an authority of your own, name the file of its certificate in NODE_EXTRA_CA_CERTS\n`,
  })
})

test.each([
  [413, '<h1>Payload Too Large</h1>', 'answered 413 Payload Too Large, not as a Lookout server does'],
  [502, '<h1>Bad Gateway</h1>', 'answered 502 Bad Gateway, not as a Lookout server does'],
  [200, '<h1>Welcome!</h1>', 'is not a Lookout server'],
  [200, '{"status": "ok"}', 'is not a Lookout server'],
  [200, 'null', 'is not a Lookout server'],
])('what a proxy or another program answers is said: %i %s', async (status, body, said) => {
  const proxy = createServer((_request, response) => {
    response.writeHead(status).end(body)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void proxy.close())
  await once(proxy, 'listening')
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  expect(await chat(['Hi there'], { LOOKOUT_URL: url })).toEqual({
    code: 1,
    stdout: '',
    stderr: `lookout: the server at ${url} ${said}\n`,
  })
})

test('a server that has had too many requests is waited for, and no model is loaded', async () => {
  let asked = 0
  const busy = createServer((_request, response) => {
    const error = { message: 'Too many.', type: 'rate_limit_error', code: 'rate_limit_exceeded', param: null }
    if (++asked <= 2) response.writeHead(429, { 'retry-after': '1' }).end(JSON.stringify({ error }))
    else response.end(JSON.stringify({ object: 'list', data: [{ id: 'only' }] }))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void busy.close())
  await once(busy, 'listening')
  const { port } = busy.address() as { port: number }
  const run = await chat(['Hi there', '--model', 'none'], { LOOKOUT_URL: '', LOOKOUT_PORT: String(port) })
  expect(run.stderr).toMatch(/^Too many\. \(waiting for 1 s\)\n/)
  expect(run.stderr).not.toContain('loading')
  expect(asked).toBeGreaterThan(2)
})

describe.skipIf(TERMINAL === null)('on a terminal', () => {
  /** What a command prints, its standard error included. */
  async function shown(...args: string[]): Promise<string> {
    const [program, ...before] = TERMINAL!
    const settings = { LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY, NO_COLOR: '1' }
    const child = spawn(program, [...before, process.execPath, 'src/main.ts', ...args], {
      env: { ...bareEnvironment(), ...settings },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    return (await text(child.stdout)).replaceAll('\r', '')
  }

  test.each([[[]], [['lookout-nano']], [['--model', 'service-mk1']]])(
    'the demonstration model says once that it is one: %j',
    async (model) => {
      const [before, after, ...rest] = (await shown('chat', ...model, 'docs/pictures/labels', 'Hi there')).split(
        `${DEMONSTRATION_NOTE}\n`,
      )
      expect(before).toBe('')
      expect(after!.match(/Hello there\.\n/g)).toHaveLength(3)
      expect(rest).toEqual([])
    },
  )

  test('a program that reads the reply is told nothing', async () => {
    expect(JSON.parse(await shown('chat', 'Hi there', '--json'))).toMatchObject({ reply: 'Hello there.' })
  })

  test('a reply cannot command it; a file gets the reply as it is', async () => {
    const reply = 'a\tb\u001b]52;c;cm0gLXJmIH4=\u0007\u009b2J\nc'
    server.engine.script = { texts: [reply] }
    expect(await shown('chat', 'service-mk1.5', 'Hi there')).toContain(
      'a\tb\ufffd]52;c;cm0gLXJmIH4=\ufffd\ufffd2J\nc\n',
    )
    expect((await chat(['Hi there'])).stdout).toBe(`${reply}\n`)
  })

  test('another model says nothing', async () => {
    await new ModelStore(server.directory).put('other')
    expect(await shown('chat', 'other', 'Hi there')).toBe('Hello there.\n')
  })
})

describe('chat by itself', () => {
  async function alone(): Promise<Record<string, string>> {
    const temporary = await mkdtemp(join(tmpdir(), 'lookout-alone-'))
    onTestFinished(() => rm(temporary, { recursive: true, force: true }))
    // No program listens at port 1.
    return { TMPDIR: temporary, LOOKOUT_PORT: '1', LOOKOUT_DATA_DIR: place('unused') }
  }

  test('loads the model, answers, and leaves nothing behind', async () => {
    const environment = await alone()
    const run = await outcomeOf(
      startLookout(['chat', SHAPES, 'What is in this image?', '--max-tokens', '4'], {
        ...environment,
        LOOKOUT_PREFIX_CACHE_DISK: '1',
      }),
    )
    expect(run).toEqual({
      code: 0,
      stdout: expect.stringMatching(/\S\n$/),
      stderr: 'loading Lookout Nano (service-mk1.5) ...\nthe reply was cut off at its token limit\n',
    })
    expect(await readdir(environment.TMPDIR!)).toEqual([])
    await expect(readdir(place('unused'))).rejects.toThrow('ENOENT')
  })

  test('Ctrl-C ends it at once, and the service soon after', async () => {
    const environment = await alone()
    const child = startLookout(['chat', 'Tell a story.'], environment)
    await once(child.stderr!, 'data')
    // Its folder appears when the service begins to start, which Ctrl-C is to interrupt.
    await expect.poll(() => readdir(environment.TMPDIR!)).toHaveLength(1)
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([130, null])
    await expect.poll(() => readdir(environment.TMPDIR!)).toEqual([])
  })
})
