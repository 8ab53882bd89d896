import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { createServer as createHttpServer, request } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { premultipliedAvif } from './support/avif.ts'
import { makeBitmap } from './support/bitmap.ts'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { makePdf } from './support/pdf.ts'
import { inLinearLight } from './support/profile.ts'
import { KEY, type TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'
import { makeTiff } from './support/tiff.ts'
import { makeVideo } from './support/video.ts'

/** `lookout mcp` with the official client, which checks results against the schemas of the tools. What the model says is not judged. */
const MCP_KEY = 'mcp-key'

/** The shade 64 of sRGB in linear light, of 16 bits. */
const LINEAR_GREY = 3360

let server: TestServer
let folder: string
let root: string
let http: ChildProcess
let socket: Server
let httpUrl: string
/** Serves the files of the folder, one of them when a test has let it go. */
const late = Promise.withResolvers<void>()
const asked = Promise.withResolvers<void>()
const web = createHttpServer(async ({ url }, response) => {
  if (url === '/shapes.png?late') {
    asked.resolve()
    await late.promise
  }
  response.end(await readFile(join(root, new URL(url!, 'http://web').pathname)).catch(() => ''))
})
const addressOf = (name: string) => `http://127.0.0.1:${(web.address() as AddressInfo).port}/${name}`
const clients: Client[] = []

const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env
const environment = () => ({ LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY, PATH, NODE_COMPILE_CACHE })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-mcp-'))
  root = join(folder, 'allowed')
  await mkdir(join(root, 'within'), { recursive: true })
  await copyFile('docs/pictures/shapes.png', join(root, 'shapes.png'))
  await copyFile('docs/pictures/shapes.png', join(folder, 'secret.png'))
  await symlink(join(folder, 'secret.png'), join(root, 'link.png'))
  await writeFile(join(root, 'notes.txt'), 'Nothing to see.')
  await writeFile(join(root, 'huge.mp4'), '')
  await truncate(join(root, 'huge.mp4'), 129 * 2 ** 20)
  await writeFile(join(root, 'huge.png'), '')
  await truncate(join(root, 'huge.png'), 51 * 2 ** 20)
  await writeFile(join(root, 'empty.png'), '')
  await symlink(folder, join(root, 'out'))
  await symlink(join(folder, 'gone.png'), join(root, 'dangling.png'))
  execFileSync('mkfifo', [join(root, 'pipe')])
  await mkdir(join(root, 'shelf/deep/er'), { recursive: true })
  await mkdir(join(root, 'shelf/.hidden'))
  const sideways = sharp({ create: { width: 40, height: 30, channels: 3, background: '#224466' } })
  for (const [name, bytes] of [
    ['deep/er/cut.png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])],
    ['10.bmp', makeBitmap({ bits: 24 })],
    ['2.JPG', await sideways.withMetadata({ orientation: 6 }).jpeg().toBuffer()],
    ['deep/x.wav', Buffer.from('RIFF\x24\0\0\0WAVEfmt ')],
    ['.hidden/x.png', await sideways.png().toBuffer()],
    ['.x.png', await sideways.png().toBuffer()],
  ] as const)
    await writeFile(join(root, 'shelf', name), bytes)
  await symlink(join(root, 'shapes.png'), join(root, 'shelf/link.png'))
  // Names that are not UTF-8, which some systems refuse.
  for (const byte of [0xfe, 0xff]) {
    const name = Buffer.concat([Buffer.from(join(root, 'shelf/')), Buffer.from([byte]), Buffer.from('.png')])
    await writeFile(name, '').catch(() => {})
  }
  const light = new Uint16Array(1600 * 200).fill(LINEAR_GREY)
  const grey = sharp(light, { raw: { width: 1600, height: 200, channels: 1 } }).toColourspace('grey16')
  await writeFile(join(root, 'grey.png'), inLinearLight(await grey.png().toBuffer(), 'GRAY'))
  await writeFile(join(root, 'clear.avif'), await premultipliedAvif({ r: 100, g: 25, b: 25, alpha: 128 / 255 }))
  const frames = [10, 120].map((shade) => ({ width: 64, height: 64, data: new Uint8Array(64 * 64 * 3).fill(shade) }))
  await writeFile(join(root, 'moving.avif'), await makeVideo({ format: 'avif', frames }))
  for (const [name, seconds] of [
    ['shapes.png', 1_000_000],
    ['shelf/2.JPG', 4_000_000_000],
    ['shelf/deep/x.wav', 4_000_000_001],
  ] as const)
    await utimes(join(root, name), seconds, seconds)
  socket = createServer().listen(join(root, 'socket'))
  await once(web.listen(0, '127.0.0.1'), 'listening')
  server = await startShippedServer({ environment: { LOOKOUT_MEDIA_HOSTS: new URL(addressOf('')).host } })
  http = spawn(process.execPath, ['src/main.ts', 'mcp', '--root', root, '--http', '0', '--mcp-key', MCP_KEY], {
    env: environment(),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  httpUrl = await new Promise((found, failed) => {
    let said = ''
    http.stderr!.on('data', (chunk) => {
      said += chunk
      const url = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(said)?.[0]
      if (url) found(url)
    })
    http.once('exit', () => failed(new Error(said)))
  })
})
afterAll(async () => {
  for (const client of clients) await client.close()
  http?.kill()
  socket?.close()
  web.close()
  await server?.close()
  await rm(folder, { recursive: true, force: true })
})

async function connect(kind: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  clients.push(client)
  await client.connect(
    kind === 'stdio'
      ? new StdioClientTransport({
          command: process.execPath,
          args: [resolve('src/main.ts'), 'mcp', '--root', root],
          env: environment(),
          cwd: process.cwd(),
        })
      : new StreamableHTTPClientTransport(new URL(httpUrl), {
          requestInit: { headers: { authorization: `Bearer ${MCP_KEY}` } },
        }),
  )
  return client
}

interface Listed {
  readonly files: readonly {
    readonly path: string
    readonly kind: string
    readonly width: number | null
    readonly height: number | null
    readonly bytes: number
  }[]
  readonly total: number
  readonly cursor: string | null
  readonly complete: boolean
}

interface Called {
  readonly isError?: boolean
  readonly content: readonly { readonly type: string; readonly text?: string; readonly data?: string }[]
  readonly structuredContent?: Record<string, unknown>
}

describe.each(['stdio', 'streamable HTTP'])('%s', (kind) => {
  let client: Client
  beforeAll(async () => {
    client = await connect(kind)
  })
  const call = async (name: string, args: object) =>
    (await client.callTool({ name, arguments: args as Record<string, unknown> })) as Called
  const problem = async (name: string, args: object) => {
    const { isError, content } = await call(name, args)
    expect(isError).toBe(true)
    return content[0]!.text!
  }

  test('lists its tools, with the schemas of their results', async () => {
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toEqual(['list', 'look', 'detect', 'decide', 'read'])
    for (const tool of tools) expect(tool).toMatchObject({ outputSchema: {}, annotations: { readOnlyHint: true } })
    expect(client.getServerVersion()?.name).toBe('lookout')
  })

  describe('lists', () => {
    const listed = async (args: object) => {
      const { structuredContent, content, isError } = await call('list', args)
      expect([isError ?? false, content[0]!.text]).toEqual([false, JSON.stringify(structuredContent)])
      const list = structuredContent as unknown as Listed
      return { ...list, paths: list.files.map(({ path }) => path) }
    }

    test('files with their sizes, also of pictures on their side, and no hidden ones', async () => {
      const { files, ...rest } = await listed({ path: 'shelf' })
      const about = files.map(({ path, kind, width, height }) => [path, kind, width, height])
      expect(about).toEqual([
        ['shelf/2.JPG', 'image', 30, 40],
        ['shelf/10.bmp', 'image', expect.any(Number), expect.any(Number)],
        ['shelf/deep/er/cut.png', 'image', null, null],
        ['shelf/deep/x.wav', 'audio', null, null],
        ['shelf/link.png', 'image', 512, 384],
      ])
      expect(rest).toMatchObject({ total: 5, cursor: null, complete: true })
      expect(files[4]).toMatchObject({ bytes: (await lstat('docs/pictures/shapes.png')).size })
      // As the other tools expect it.
      expect((await call('detect', { image: files[0]!.path })).isError ?? false).toBe(false)
    })

    test.each([
      [{ path: 'shelf', recursive: false }, ['shelf/2.JPG', 'shelf/10.bmp', 'shelf/link.png']],
      [{ path: 'shelf/*.{jpg,bmp}' }, ['shelf/2.JPG', 'shelf/10.bmp']],
      [{ path: 'shelf/**/?.*' }, ['shelf/2.JPG', 'shelf/deep/x.wav']],
      [{ path: 'sh*f/**/er/**' }, ['shelf/deep/er/cut.png']],
      [{ path: 'shelf', name: 'CUT' }, ['shelf/deep/er/cut.png']],
      [{ path: 'shelf', kind: 'audio' }, ['shelf/deep/x.wav']],
      [{ path: 'shelf', sort: 'newest', limit: 2 }, ['shelf/deep/x.wav', 'shelf/2.JPG']],
    ])('%j', async (args, paths) => {
      expect((await listed(args)).paths).toEqual(paths)
      const absolute = await listed({ ...args, path: join(root, args.path) })
      expect(absolute.paths).toEqual(paths)
    })

    test('page by page, each file once', async () => {
      for (const sort of ['name', 'newest']) {
        const { paths: all } = await listed({ path: 'shelf', sort })
        const pages: string[] = []
        let cursor: string | null = null
        do {
          const page = await listed({ path: 'shelf', sort, limit: 2, ...(cursor === null ? {} : { cursor }) })
          expect(page.total).toBe(5)
          pages.push(...page.paths)
          cursor = page.cursor
        } while (cursor !== null)
        expect(pages).toEqual(all)
      }
    })

    test('nothing outside the folders', async () => {
      const { paths } = await listed({ limit: 200 })
      expect(paths).toContain('shapes.png')
      for (const name of ['link.png', 'dangling.png', 'out/secret.png', 'pipe', 'notes.txt'])
        expect(paths).not.toContain(name)
    })

    test.each([
      [{ path: '/etc' }, /^\/etc is not in an allowed folder/],
      [{ path: 'out' }, /^out is not in an allowed folder/],
      [{ path: 'out/*.png' }, /out is not in an allowed folder/],
      [{ path: '../*' }, /is not in an allowed folder/],
      [{ path: 'missing' }, /^missing is not there$/],
      [{ path: 'shapes.png' }, /^shapes.png is not a folder$/],
      [{ path: 'https://example.org/' }, /^path: expected a folder or a pattern, not an address$/],
      [{ path: `{${','.repeat(64)}}` }, /^path: expected at most 64 alternatives/],
      [{ cursor: 'x' }, /^cursor: expected the cursor of a previous page$/],
      [{ limit: 0 }, /limit/],
    ])('not %j', async (args, words) => {
      expect(await problem('list', args)).toMatch(words)
    })
  })

  test('pictures are resources, small enough for an agent', async () => {
    const { resources } = await client.listResources()
    const uri = (name: string) => `file://${join(root, name)}`
    expect(resources.find(({ name }) => name === 'shelf/2.JPG')).toMatchObject({
      uri: uri('shelf/2.JPG'),
      mimeType: 'image/jpeg',
      size: expect.any(Number),
    })
    const names = resources.map(({ name }) => name)
    for (const name of ['shelf/deep/x.wav', 'shelf/.x.png', 'link.png']) expect(names).not.toContain(name)
    expect((await client.listResourceTemplates()).resourceTemplates).toMatchObject([{ uriTemplate: 'file://{+path}' }])
    const large = sharp({ create: { width: 4000, height: 1000, channels: 3, background: '#224466' } })
    await writeFile(join(root, 'large.png'), await large.png().toBuffer())
    for (const [name, mimeType, width] of [
      ['shapes.png', 'image/png', 512],
      ['large.png', 'image/jpeg', 1568],
    ] as const) {
      const { contents } = await client.readResource({ uri: uri(name) })
      expect(contents).toMatchObject([{ uri: uri(name), mimeType }])
      const { format, width: seen } = await sharp(
        Buffer.from((contents[0] as { blob: string }).blob, 'base64'),
      ).metadata()
      expect([`image/${format}`, seen]).toEqual([mimeType, width])
    }
    // The library takes 16 bits to be Display P3 already.
    const samples = Uint16Array.from({ length: 1600 * 8 * 3 }, (_, at) => [200, 50, 50][at % 3]! * 257)
    const wide = sharp(samples, { raw: { width: 1600, height: 8, channels: 3 } }).toColourspace('rgb16')
    await writeFile(join(root, 'wide.png'), await wide.withIccProfile('p3').png().toBuffer())
    for (const [name, colour] of [
      // By the matrices of Display P3 and sRGB.
      ['wide.png', [218, 24, 40]],
      ['grey.png', [64, 64, 64]],
      ['clear.avif', [227, 152, 152]],
      ['moving.avif', [10, 10, 10]],
    ] as const) {
      const { contents } = await client.readResource({ uri: uri(name) })
      const pixels = await sharp(Buffer.from((contents[0] as { blob: string }).blob, 'base64'))
        .raw()
        .toBuffer()
      // JPEG loses a little.
      for (const [index, value] of colour.entries()) expect(Math.abs(pixels[index]! - value)).toBeLessThan(6)
    }
    for (const [name, words] of [
      ['link.png', 'is not in an allowed folder'],
      ['missing.png', 'is not there'],
      ['shelf/deep/x.wav', 'is audio/wav, not a picture'],
      ['notes.txt', 'is of an unknown type'],
    ] as const) {
      await expect(client.readResource({ uri: uri(name) })).rejects.toThrow(`${uri(name)} ${words}`)
    }
  })

  test('look', async () => {
    const { content, structuredContent } = await call('look', { question: 'What is it?', media: ['shapes.png'] })
    expect(structuredContent).toEqual({ answer: content[0]!.text, complete: true })
    expect(content[0]!.text).toMatch(/\w/)
  })

  test('says when a picture has more pages than are looked at', async () => {
    const page = new Uint8Array(64 * 64)
    await writeFile(join(root, 'pages.tif'), makeTiff({ width: 64, height: 64, channels: 1, pages: [page, page] }))
    for (const [tool, args] of [
      ['look', { question: 'What is it?', media: ['pages.tif'] }],
      ['detect', { image: 'pages.tif' }],
    ] as const) {
      const { content } = await call(tool, args)
      expect(content.at(-1)!.text).toBe('pages.tif has 2 pages, of which only the first is looked at')
    }
  })

  test('looks at a PDF, at all its pages or at one', async () => {
    await writeFile(join(root, 'report.pdf'), makePdf([{}, {}]))
    const shown = async (tool: string, args: object) => (await call(tool, args)).content.at(-1)!.text
    for (const [tool, args] of [
      ['look', { question: 'What is it?', media: ['report.pdf'] }],
      ['read', { image: 'report.pdf' }],
      ['decide', { media: ['report.pdf'], questions: [{ question: 'Is it signed?' }] }],
    ] as const) {
      const { content, isError } = await call(tool, args)
      expect([tool, isError ?? false, content.length]).toEqual([tool, false, 1])
      expect(await shown(tool, { ...args, page: 3 })).toBe('report.pdf: page names page 3, but the document has 2')
    }
    expect(await shown('detect', { image: 'report.pdf' })).toBe('report.pdf is not a picture or a video')
    const { structuredContent } = await call('list', { kind: 'document' })
    expect(structuredContent).toMatchObject({ files: [{ path: 'report.pdf', kind: 'document' }] })
  })

  test('looks at the page that is named', async () => {
    const pages = [0, 255].map((shade) => new Uint8Array(64 * 64).fill(shade))
    await writeFile(join(root, 'two.tif'), makeTiff({ width: 64, height: 64, channels: 1, pages }))
    for (const [tool, args] of [
      ['look', { question: 'What is it?', media: ['two.tif'] }],
      ['detect', { image: 'two.tif' }],
      ['read', { image: 'two.tif' }],
      ['decide', { media: ['two.tif'], questions: [{ question: 'Is it dark?' }] }],
    ] as const) {
      const { content, isError } = await call(tool, { ...args, page: 2 })
      expect([tool, isError ?? false, content.length]).toEqual([tool, false, 1])
      const beyond = await call(tool, { ...args, page: 3 })
      expect([beyond.isError, beyond.content[0]!.text]).toEqual([true, 'two.tif has no page 3'])
    }
    const several = await call('look', { question: 'What?', media: ['two.tif', 'shapes.png'], page: 2 })
    expect([several.isError, several.content[0]!.text]).toEqual([true, 'page: expected a single file'])
  })

  test('takes pictures, sounds and documents at addresses', async () => {
    // Lists leave them out.
    await mkdir(join(root, '.away'), { recursive: true })
    await copyFile('docs/pictures/words.mp3', join(root, '.away/words.mp3'))
    await writeFile(join(root, '.away/two.pdf'), makePdf([{}, {}]))
    const page = new Uint8Array(64 * 64)
    await writeFile(join(root, '.away/two.tiff'), makeTiff({ width: 64, height: 64, channels: 1, pages: [page, page] }))
    const look = async (name: string, more = {}) => {
      const { content, isError = false } = await call('look', { question: 'What?', media: [addressOf(name)], ...more })
      return isError ? content[0]!.text! : 'seen'
    }
    for (const name of ['shapes.png', '.away/words.mp3', '.away/two.pdf', '.away/two.tiff'])
      expect(await look(name)).toBe('seen')
    expect(await look('.away/two.pdf', { page: 2 })).toBe('seen')
    expect(await look('.away/two.tiff', { page: 3 })).toContain('page names page 3, but the document has 2')
    expect(await look('shapes.png', { page: 2 })).toMatch(/page needs a file or a document/)
    const sound = await call('look', { question: 'What?', media: ['.away/words.mp3'], page: 2 })
    expect(sound.content[0]!.text).toBe('.away/words.mp3 is audio/mpeg, which has no pages')
  })

  test('says what the server leaves out of a picture, in the result', async () => {
    const frames = Buffer.alloc(64 * 64 * 2 * 3, 90).fill(200, 64 * 64 * 3)
    const webp = await sharp(frames, { raw: { width: 64, height: 128, channels: 3, pageHeight: 64 } })
      .webp({ loop: 0, delay: [100, 100] })
      .toBuffer()
    await writeFile(join(root, 'moving.webp'), webp)
    for (const [tool, args] of [
      ['look', { question: 'What is it?', media: ['moving.webp'] }],
      ['detect', { image: 'moving.webp' }],
    ] as const) {
      const { content } = await call(tool, args)
      expect(content.at(-1)!.text).toMatch(/only the first is looked at/)
      expect(content).toHaveLength(2)
    }
  })

  test('takes BMP', async () => {
    await writeFile(join(root, 'a.bmp'), makeBitmap({ bits: 24 }))
    const { isError } = await call('detect', { image: 'a.bmp', draw: true })
    expect(isError ?? false).toBe(false)
  })

  test('refuses a BMP that claims more than memory holds', async () => {
    await writeFile(join(root, 'bomb.bmp'), makeBitmap({ bits: 8, runs: true, width: 60_000, height: 60_000 }))
    const { isError, content } = await call('detect', { image: 'bomb.bmp' })
    expect([isError, content[0]!.text]).toEqual([true, expect.stringMatching(/bomb\.bmp is damaged/)])
  })

  test('detect, with a drawing that agents can take', async () => {
    const image = `file://${join(root, 'shapes.png')}`
    const { content, structuredContent } = await call('detect', { image, categories: ['heart', 'star'], draw: true })
    const { detections } = structuredContent as { detections: { label: string; box: Record<string, number> }[] }
    expect(detections.length).toBeGreaterThan(0)
    for (const { label, box } of detections) {
      expect(label).toMatch(/^(heart|star)$/)
      expect(box.left!).toBeLessThan(box.right!)
    }
    const drawing = Buffer.from(content[1]!.data!, 'base64')
    expect(await sharp(drawing).metadata()).toMatchObject({ format: 'jpeg' })
    const grey = await call('detect', { image: 'grey.png', categories: ['heart'], draw: true })
    const shades = await sharp(Buffer.from(grey.content[1]!.data!, 'base64')).raw().toBuffer()
    const isRight = (shade: number) => Math.abs(shade - 64) < 6
    expect(shades.filter(isRight).length).toBeGreaterThan(shades.length / 2)
    const points = await call('detect', { image: 'shapes.png', categories: ['heart'], output: 'point' })
    expect(points.content).toHaveLength(1)
    expect(points.structuredContent).toMatchObject({
      detections: [{ label: 'heart', point: { x: expect.any(Number) } }],
    })
    expect(JSON.stringify(points)).not.toContain('confidence')
    const rated = await call('detect', { image: 'shapes.png', categories: ['heart'], min_confidence: 0 })
    expect(rated.structuredContent).toMatchObject({ detections: [{ label: 'heart', confidence: expect.any(Number) }] })
  })

  test('detect follows objects through a video', async () => {
    await copyFile('docs/pictures/shapes.webm', join(root, 'within/shapes.webm'))
    const image = 'within/shapes.webm'
    const { structuredContent } = await call('detect', { image, categories: ['circle'] })
    const { detections } = structuredContent as { detections: { track: number; seconds: number }[] }
    expect(detections[0]).toMatchObject({ label: 'circle', box: { left: expect.any(Number) }, track: 1 })
    const times = detections.map(({ seconds }) => seconds)
    expect(times).toEqual(times.toSorted((one, other) => one - other))
    expect(times.at(-1)).toBeGreaterThan(times[0]!)
    expect(await problem('detect', { image, draw: true })).toMatch(/are for pictures, and this is a video$/)
  })

  test('decide', async () => {
    const { structuredContent } = await call('decide', {
      media: [join(root, 'shapes.png')],
      questions: [
        { question: 'Is there a heart?' },
        { question: 'What colour is the heart?', options: ['red', 'purple'] },
        { question: 'How large is the heart?', options: ['small', 'large'], ordered: true },
      ],
    })
    const { answers } = structuredContent as {
      answers: { answer: unknown; probabilities: { probability: number }[] }[]
    }
    expect(answers.map(({ answer }) => typeof answer)).toEqual(['boolean', 'string', 'number'])
    for (const { probabilities } of answers) {
      expect(probabilities.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1)
    }
  })

  test('read, as it stands and into fields', async () => {
    await copyFile('docs/pictures/labels/parcel-1.png', join(root, 'within/parcel.png'))
    const plain = await call('read', { image: 'within/parcel.png' })
    expect(plain.structuredContent).toEqual({ text: plain.content[0]!.text, fields: null, complete: true })
    const { structuredContent } = await call('read', { image: 'within/parcel.png', fields: { name: 'Of the person.' } })
    const { fields, complete } = structuredContent as { fields: { name: string | null } | null; complete: boolean }
    if (complete) expect(Object.keys(fields!)).toEqual(['name'])
    else expect(fields).toBeNull()
  })

  test.each([
    ['../secret.png', 'is not in an allowed folder'],
    ['link.png', 'is not in an allowed folder'],
    ['/etc/passwd', 'is not in an allowed folder'],
    ['/etc/no-such-file', 'is not in an allowed folder'],
    ['file:///etc/passwd', 'is not in an allowed folder'],
    ['file://elsewhere/etc/passwd', 'is not the address of a file on this machine'],
    ['a\0b.png', 'null byte'],
    ['missing.png', 'is not there'],
    ['within', 'is not a file'],
    ['notes.txt', 'is of an unknown type'],
    ['huge.mp4', 'more than 128 MiB'],
    ['http://127.0.0.1:1/x.png', 'http://127.0.0.1:1/x.png: Fetching media'],
    // What a link leads to is not told, whether it is there or not.
    ['out/secret.png', 'is not in an allowed folder'],
    ['out/no-such-file', 'is not in an allowed folder'],
    ['out/no-such-folder/file', 'is not in an allowed folder'],
    ['dangling.png', 'is not in an allowed folder'],
    ['within/../../secret.png', 'is not in an allowed folder'],
    ['missing/shapes.png', 'is not there'],
    ['within/%2e%2e/%2e%2e/secret.png', 'is not there'],
    ['file:/etc/passwd', 'is not in an allowed folder'],
    ['FILE:///%65tc/passwd', 'is not in an allowed folder'],
    ['file:///etc%2Fpasswd', 'is not the address of a file on this machine'],
    ['data:image/png;base64,AAAA', 'is not there'],
    ['/dev/zero', 'is not in an allowed folder'],
    ['pipe', 'is not a file'],
    ['socket', 'is not a file'],
    ['empty.png', 'empty.png is empty'],
    ['huge.png', 'huge.png is too large for a picture'],
  ])('%j is refused in words', async (name, words) => {
    const text = await problem('look', { question: 'What is it?', media: [name] })
    expect(text).toContain(words)
  })

  test('of several files, the one at fault is named', async () => {
    const whole = await readFile('docs/pictures/shapes.png')
    await writeFile(join(root, 'within/cut.png'), whole.subarray(0, whole.length / 2))
    await writeFile(join(root, 'within/cut.wav'), 'RIFF\x24\0\0\0WAVEfmt ')
    for (const name of ['within/cut.png', `file://${join(root, 'within/cut.wav')}`]) {
      const media = ['shapes.png', name, 'shapes.png']
      const words = expect.stringMatching(/^\S+: The (image|file) is damaged or truncated$/)
      const answers = [
        await problem('look', { question: 'What is it?', media }),
        await problem('decide', { questions: [{ question: 'Is it?' }], media }),
      ]
      expect(answers).toEqual([words, words])
      for (const answer of answers) expect(answer.split(': ')[0]).toBe(name)
    }
    expect(await problem('detect', { image: 'within/cut.png' })).toMatch(/^within\/cut.png: The image is damaged/)
    expect(await problem('read', { image: 'within/cut.png' })).toMatch(/^within\/cut.png: The image is damaged/)
  })

  test('arguments that do not fit are refused', async () => {
    expect(await problem('look', { question: 'What is it?', media: [] })).toMatch(/media/)
    expect(await problem('detect', { image: 'shapes.png', things: ['heart'] })).toMatch(/things/)
    expect(await problem('read', { image: 'shapes.png', fields: {} })).toMatch(/field/)
    expect(await problem('detect', { image: 'https://example.org/a.png', draw: true })).toMatch(/draw needs a file/)
    const questions = [{ question: 'Which?', options: ['a', 'a'] }]
    expect(await problem('decide', { media: ['shapes.png'], questions })).toMatch(/options.*differ/s)
    for (const [question, words] of [
      [{ question: 'Which?', choices: ['a', 'b'] }, /choices/],
      [{ question: 'How many?', ordered: true }, /options: expected 2 to 10/],
      [{ question: 'How many?', options: [...'abcdefghijk'], ordered: true }, /options: expected 2 to 10/],
    ] as const)
      expect(await problem('decide', { media: ['shapes.png'], questions: [question] })).toMatch(words)
  })
})

describe('the door over HTTP', () => {
  const initialize = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
  })
  const statusOf = (headers: Record<string, string>, path = '/mcp') =>
    new Promise<number | undefined>((resolve, reject) => {
      const { port } = new URL(httpUrl)
      const types = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
      const options = { port, path, host: '127.0.0.1', method: 'POST', headers: { ...types, ...headers } }
      request(options, (response) => {
        response.resume()
        resolve(response.statusCode)
      })
        .on('error', reject)
        .end(initialize)
    })
  const authorization = `Bearer ${MCP_KEY}`

  test.each([
    ['with the key', 200, () => ({ authorization })],
    ['without a key', 401, () => ({})],
    ['with another key', 401, () => ({ authorization: 'Bearer other' })],
    ['from a page that has another name for this machine', 403, () => ({ authorization, host: 'evil.example:80' })],
    ['from a page of another origin', 403, () => ({ authorization, origin: 'https://evil.example' })],
    ['from a page of this machine', 200, () => ({ authorization, origin: 'http://localhost:3000' })],
  ])('%s: %i', async (_, status, headers) => {
    expect(await statusOf(headers() as Record<string, string>)).toBe(status)
  })

  const post = (body: object, session?: string) =>
    fetch(httpUrl, {
      method: 'POST',
      headers: {
        ...{ authorization, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        ...(session !== undefined && { 'mcp-session-id': session }),
      },
      body: JSON.stringify(body),
    })
  const begin = async () => {
    const response = await post(JSON.parse(initialize))
    await response.text()
    return response.headers.get('mcp-session-id')!
  }
  const toolCall = (name: string, args: object) => ({
    ...{ jsonrpc: '2.0', id: 2, method: 'tools/call' },
    params: { name, arguments: args },
  })

  test('a call is answered, however many sessions begin meanwhile', async () => {
    const session = await begin()
    const look = toolCall('look', { question: 'What is it?', media: [addressOf('shapes.png?late')] })
    const answer = post(look, session).then((response) => response.text())
    await asked.promise
    for (let count = 0; count < 100; count++) await begin()
    // Clients may still cancel the call.
    const ping = { jsonrpc: '2.0', id: 3, method: 'ping' }
    expect((await post(ping, session)).status).toBe(200)
    late.resolve()
    expect(await answer).toContain('"complete":true')
    await expect.poll(async () => (await post(ping, session)).status).toBe(404)
  })

  test('a body that is too large is read to its end and refused', async () => {
    const media = ['x'.repeat(40 * 2 ** 20)]
    const refused = await post(toolCall('look', { question: 'What?', media }))
    expect(refused.status).toBe(413)
    // A client that was busy for a while does not write to a connection that is closed.
    expect(refused.headers.get('keep-alive')).toBe('timeout=72')
    // All that the schemas allow.
    const questions = Array.from({ length: 100 }, () => ({ question: 'x'.repeat(20_000) }))
    const text = await (await post(toolCall('decide', { media: ['none.png'], questions }))).text()
    expect(text).toContain('none.png is not there')
  })

  test('a port that is in use, and a key that no client can send', async () => {
    const { port } = new URL(httpUrl)
    const { stderr } = await outcomeOf(startLookout(['mcp', '--http', port, '--mcp-key', 'x'], environment()))
    expect(stderr).toContain(`--http: port ${port} is in use`)
    const empty = await outcomeOf(startLookout(['mcp', '--http', '0', '--mcp-key', ''], environment()))
    expect([empty.code, empty.stderr]).toEqual([1, expect.stringContaining('--mcp-key')])
  })

  test('no other path', async () => {
    expect(await statusOf({ authorization }, '/')).toBe(404)
  })
})

test('a key that the command makes is in no log, but in a file that its owner alone can read', async () => {
  const data = join(folder, 'data')
  const child = startLookout(['mcp', '--root', root, '--http', '0'], { ...environment(), LOOKOUT_DATA_DIR: data })
  child.stdin!.end()
  let said = ''
  for await (const text of child.stderr!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    said += text
    if (said.includes('\n')) break
  }
  const [, url, file] = /^serving MCP at (http:\S+), with the key in (\S+)\n$/.exec(said)!
  expect((await lstat(file!)).mode).toBe(0o100600)
  const key = (await readFile(file!, 'utf8')).trim()
  expect(said).not.toContain(key)
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url!), { requestInit: { headers: { authorization: `Bearer ${key}` } } }),
  )
  await client.close()
  child.kill('SIGTERM')
  await once(child, 'exit')
  expect(await readdir(data)).toEqual([])
})

test('without a folder, no file is looked at, and a folder that is not there is an error', async () => {
  const client = new Client({ name: 'test', version: '1' })
  clients.push(client)
  const args = [resolve('src/main.ts'), 'mcp']
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env: environment() }))
  const { content } = (await client.callTool({
    name: 'read',
    arguments: { image: resolve('docs/pictures/shapes.png') },
  })) as Called
  expect(content[0]!.text).toContain('--root FOLDER')
  const { code, stderr } = await outcomeOf(startLookout(['mcp', '--root', join(folder, 'none')], environment()))
  expect([code, stderr]).toEqual([1, expect.stringContaining('is not a folder')])
})
