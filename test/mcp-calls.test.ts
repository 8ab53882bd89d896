import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Client, type ClientOptions, type Progress, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { KEY, startTestServer, type TestServer } from './support/server.ts'

/** What happens to calls of `lookout mcp` while they last, in both generations of the protocol. */
const MCP_KEY = 'mcp-key'

let server: TestServer
let folder: string
let http: ChildProcess
let httpUrl: string
const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env
const environment = () => ({ LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY, PATH, NODE_COMPILE_CACHE })
const picture = (name: string) => join(folder, name)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-mcp-'))
  await mkdir(picture('offered'))
  const grey = sharp({ create: { width: 64, height: 64, channels: 3, background: '#808080' } })
  for (const name of ['offered/grey.png', 'other.png']) await writeFile(picture(name), await grey.png().toBuffer())
  const raw = { width: 2_100, height: 2_100, channels: 3 } as const
  const noise = sharp(randomBytes(raw.width * raw.height * raw.channels), { raw })
  await writeFile(picture('mcp-large.png'), await noise.png({ compressionLevel: 0 }).toBuffer())
  server = await startTestServer()
  http = spawn(process.execPath, ['src/main.ts', 'mcp', '--root', folder, '--http', '0', '--mcp-key', MCP_KEY], {
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
    http.once('exit', () => failed(new Error('lookout mcp ended')))
  })
})
afterAll(async () => {
  http?.kill()
  await server?.close()
  await rm(folder, { recursive: true, force: true })
})
beforeEach(() => {
  server.engine.script = { texts: ['slow '], endless: true, delayMs: 20 }
  server.engine.works.length = 0
  server.engine.aborts.length = 0
})

interface Connecting {
  readonly roots?: readonly string[]
  /** Root of the command. */
  readonly root?: string
}

async function connect(kind: string, version: string, { roots, root = folder }: Connecting = {}): Promise<Client> {
  const options: ClientOptions = {
    capabilities: roots === undefined ? {} : { roots: {} },
    versionNegotiation: { mode: version === '2025-11-25' ? 'legacy' : { pin: version } },
  }
  const client = new Client({ name: 'test', version: '1' }, options)
  if (roots !== undefined) {
    client.setRequestHandler('roots/list', async () => ({
      roots: roots.map((path) => ({ uri: path.includes('://') ? path : pathToFileURL(path).href })),
    }))
  }
  await client.connect(
    kind === 'stdio'
      ? new StdioClientTransport({
          command: process.execPath,
          args: [resolve('src/main.ts'), 'mcp', ...(root === '' ? [] : ['--root', root])],
          env: environment(),
        })
      : new StreamableHTTPClientTransport(new URL(httpUrl), {
          requestInit: { headers: { authorization: `Bearer ${MCP_KEY}` } },
        }),
  )
  expect(client.getNegotiatedProtocolVersion()).toBe(version)
  return client
}

const look = (name: string) => ({ name: 'look', arguments: { question: 'What is it?', media: [name] } })
const until = async (seen: () => number) => expect.poll(seen, { interval: 10 }).toBe(1)

interface Called {
  readonly isError?: boolean
  readonly content: readonly { readonly text?: string }[]
  readonly structuredContent?: Record<string, unknown>
}

describe.each([
  ['stdio', '2025-11-25'],
  ['stdio', '2026-07-28'],
  ['HTTP', '2025-11-25'],
  ['HTTP', '2026-07-28'],
])('over %s, %s', (kind, version) => {
  let client: Client
  beforeAll(async () => {
    client = await connect(kind, version)
  })
  afterAll(() => client?.close())

  test('a call that is cancelled ends in the server, and leaves no file there', async () => {
    const cancelling = new AbortController()
    const call = client.callTool(look('mcp-large.png'), { signal: cancelling.signal })
    call.catch(() => {})
    await until(() => server.engine.works.length)
    // Other tests have files of the same organisation.
    const files = async () => {
      const { data } = (await (await server.get('/v1/files')).json()) as { data: { filename: string }[] }
      return data.filter(({ filename }) => filename === 'mcp-large.png').length
    }
    expect(await files()).toBe(1)
    cancelling.abort()
    await expect(call).rejects.toThrow()
    await until(() => server.engine.aborts.length)
    await expect.poll(files).toBe(0)
    // The same connection answers other calls.
    server.engine.script = { texts: ['grey'] }
    expect(await client.callTool(look('other.png'))).toMatchObject({ structuredContent: { answer: 'grey' } })
  })

  test('a client that leaves ends its calls', async () => {
    const leaving = await connect(kind, version)
    leaving.callTool(look('other.png')).catch(() => {})
    await until(() => server.engine.works.length)
    await leaving.close()
    await until(() => server.engine.aborts.length)
  })

  test('a client that wants to know hears how far its call is', async () => {
    const heard: Progress[] = []
    const cancelling = new AbortController()
    const options = { signal: cancelling.signal, onprogress: (progress: Progress) => void heard.push(progress) }
    client.callTool(look('other.png'), options).catch(() => {})
    await expect.poll(() => heard.at(-1)?.message ?? '').toMatch(/^\d+ characters so far$/)
    await expect.poll(() => heard.length).toBeGreaterThanOrEqual(2)
    cancelling.abort()
    // The next test counts its own.
    await until(() => server.engine.aborts.length)
    expect(heard[1]!.progress).toBeGreaterThan(heard[0]!.progress)
  })
})

describe.each(['2025-11-25', '2026-07-28'])('the folders of a client, %s', (version) => {
  const problem = async (client: Client, name: string) => {
    const { isError, content } = (await client.callTool(look(name))) as Called
    expect(isError).toBe(true)
    return content[0]!.text!
  }
  beforeEach(() => {
    server.engine.script = { texts: ['grey'] }
  })

  test('are looked into, and no others', async () => {
    const offered = [picture('offered'), picture('missing'), 'file://elsewhere/folder']
    const client = await connect('stdio', version, { roots: offered, root: '' })
    for (const name of [picture('offered/grey.png'), 'grey.png', pathToFileURL(picture('offered/grey.png')).href]) {
      expect(await client.callTool(look(name))).toMatchObject({ structuredContent: { answer: 'grey' } })
    }
    for (const name of [picture('other.png'), '../other.png', '/etc/passwd']) {
      expect(await problem(client, name)).toBe(`${name} is not in an allowed folder: ${picture('offered')}`)
    }
    await client.close()
  })

  test('say what is listed', async () => {
    const client = await connect('stdio', version, { roots: [picture('offered'), folder], root: '' })
    const list = async (args: object) => (await client.callTool({ name: 'list', arguments: { ...args } })) as Called
    const { files } = (await list({ path: '*.png' })).structuredContent as { files: { path: string }[] }
    // By the first folder, if it is below that.
    expect(files.map(({ path }) => path)).toEqual(['grey.png', picture('mcp-large.png'), picture('other.png')].sort())
    const { resources } = await client.listResources()
    expect(resources.map(({ uri }) => uri)).toContain(pathToFileURL(picture('offered/grey.png')).href)
    await client.close()
  })

  test('are not asked for where the command names some, or over HTTP', async () => {
    const client = await connect('stdio', version, { roots: [folder], root: picture('offered') })
    expect(await problem(client, picture('other.png'))).toContain('is not in an allowed folder')
    await client.close()
    const far = await connect('HTTP', version, { roots: ['/etc'] })
    expect(await problem(far, '/etc/passwd')).toContain('is not in an allowed folder')
    await far.close()
  })

  test('may be none', async () => {
    for (const roots of [undefined, []]) {
      const client = await connect('stdio', version, { root: '', ...(roots ? { roots } : {}) })
      expect(await problem(client, 'grey.png')).toMatch(
        /^no folder is allowed: .*--root FOLDER, or have the client offer/,
      )
      expect(await client.listResources()).toMatchObject({ resources: [] })
      expect((await client.callTool({ name: 'list', arguments: {} })) as Called).toMatchObject({ isError: true })
      await client.close()
    }
  })
})

describe('a path that leads elsewhere a moment later', () => {
  /** Swaps what a path leads to until it is killed, as fast as it can. */
  const SWAP = `
    import { linkSync, renameSync, symlinkSync, unlinkSync } from 'node:fs'
    const [path, inside, outside, kind] = process.argv.slice(1)
    const over = (make) => {
      make(path + '.next')
      renameSync(path + '.next', path)
    }
    const [show, hide] = {
      file: [() => over((next) => linkSync(inside, next)), () => over((next) => symlinkSync(outside, next))],
      pipe: [() => over((next) => linkSync(inside, next)), () => over((next) => linkSync(outside, next))],
      folder: [
        () => (unlinkSync(path), renameSync(path + '.away', path)),
        () => (renameSync(path, path + '.away'), symlinkSync(outside, path)),
      ],
    }[kind]
    hide()
    process.stdout.write('swapping')
    for (;;) {
      show()
      hide()
    }`

  test.each([
    ['file', 'allowed/swapped.png', 'allowed/grey.png', 'elsewhere/grey.png'],
    ['folder', 'allowed/swapped/grey.png', 'allowed', 'elsewhere'],
    ['pipe', 'allowed/pipe.png', 'allowed/grey.png', 'pipe'],
  ])(
    'a %s: only pictures of the folder are seen, and every call ends',
    { timeout: 120_000 },
    async (kind, name, inside, outside) => {
      server.engine.script = { texts: ['seen'] }
      for (const [place, background] of [
        ['allowed', '#808080'],
        ['allowed/swapped', '#808080'],
        ['elsewhere', '#ff0000'],
      ] as const) {
        await mkdir(picture(place), { recursive: true })
        const plain = sharp({ create: { width: 64, height: 64, channels: 3, background } })
        await writeFile(picture(`${place}/grey.png`), await plain.png().toBuffer())
      }
      if (kind === 'pipe') execFileSync('mkfifo', [picture('pipe')])
      const path = picture(kind === 'folder' ? dirname(name) : name)
      const args = ['--input-type=module', '-e', SWAP, path, picture(inside), picture(outside), kind]
      const swapper = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
      try {
        await once(swapper.stdout, 'data')
        const client = await connect('stdio', '2026-07-28', { root: picture('allowed') })
        const seen = { answers: 0, refusals: 0 }
        for (let call = 0; call < 100 || seen.answers === 0 || seen.refusals === 0; call++) {
          const { isError, content } = (await client.callTool(look(picture(name)))) as Called
          if (isError) expect(content[0]!.text).toMatch(/ is not (a file|there|in an allowed folder: \S+)$/)
          seen[isError ? 'refusals' : 'answers']++
        }
        await client.close()
        const images = server.engine.works.flatMap(({ prefix }) => prefix.filter((part) => part.type === 'image'))
        expect(images.length).toBe(seen.answers)
        for (const { image } of images) expect([...image.data.subarray(0, 3)]).toEqual([128, 128, 128])
      } finally {
        swapper.kill('SIGKILL')
        await once(swapper, 'exit')
      }
    },
  )
})

test('one question without an answer does not take the others with it', async () => {
  server.engine.script = { read: ({ replies }, index) => (index === 0 ? new Error('broken') : replies.map(() => -1)) }
  const client = await connect('HTTP', '2026-07-28')
  const questions = ['Is it grey?', 'Is it red?'].map((question) => ({ question }))
  const { structuredContent } = (await client.callTool({
    name: 'decide',
    arguments: { media: ['other.png'], questions },
  })) as Called
  expect(structuredContent).toMatchObject({
    answers: [
      { answer: null, confidence: 0, probabilities: [] },
      { answer: true, confidence: 0.5 },
    ],
  })
  await client.close()
})
