import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type FakeHub, type Fault, sha256, startFakeHub } from '../../test/support/fake-hub.ts'
import { bool, readGguf, string, uint32, writeGguf } from '../../test/support/gguf-writer.ts'
import { CERTIFICATE } from '../../test/support/secure-camera.ts'
import { storeCard } from './cache/model-store.ts'
import { HubError } from './hub-error.ts'
import { pull } from './pull.ts'
import type { PullEvent } from './pull-event.ts'
import type { PullOptions, PullRequest } from './pull-options.ts'
import { removeModel } from './remove.ts'
import { TUNING, type Tuning } from './tuning.ts'

/** What goes wrong on the way, with small parts and short times. The commands themselves are tested in test/pull.test.ts. */
const MIB = 2 ** 20
const NAME = 'nano-Q4_K_M.gguf'
const FAST: Tuning = { ...TUNING, partBytes: MIB, stallMs: 20_000, retryMs: 5, longestRetryMs: 20, lockPollMs: 5 }

let directory: string
let model: Buffer
let projector: Buffer
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-hub-'))
  model = await readFile('models/lookout-nano/model-f16.gguf')
  projector = await readFile('models/lookout-nano/mmproj-f16.gguf')
})
afterAll(() => rm(directory, { recursive: true, force: true }))

let hub: FakeHub
let home: string
let events: PullEvent[]
beforeEach(async () => {
  home = await mkdtemp(join(directory, 'home-'))
  events = []
  hub = await startFakeHub()
  onTestFinished(() => hub[Symbol.asyncDispose]())
  hub.repositories.set('acme/nano', new Map([[NAME, model]]))
})

const repository = (...path: string[]) => join(home, 'cache/models--acme--nano', ...path)
const blobs = () => readdir(repository('blobs')).catch(() => [])
const rangesOf = () =>
  hub.downloadsOf(NAME).map(({ range }) => /^bytes=(\d+)-(\d+)$/.exec(range!)!.slice(1).map(Number) as [number, number])
const notes = () => events.flatMap((event) => (event.type === 'note' ? [event.message] : []))

function fetched(request: Partial<PullRequest> = {}, options: Partial<PullOptions> = {}) {
  return pull(
    { address: `acme/nano:Q4_K_M`, quant: null, projector: 'auto', id: null, ...request },
    {
      settings: { endpoint: new URL(`${hub.url}/`), token: null, cacheRoot: join(home, 'cache'), isOffline: false },
      store: join(home, 'store'),
      available: 2 ** 33,
      machineSpeed: async () => null,
      tuning: FAST,
      signal: new AbortController().signal,
      report: (event) => void events.push(event),
      ...options,
    },
  )
}

/** The fault for the first downloads past the header's, one after the other. */
function failFirst(...faults: readonly Fault[]): void {
  const left = [...faults]
  let headers = 1
  hub.onDownload = () => (headers-- > 0 ? undefined : left.shift())
}

async function expectWhole(): Promise<void> {
  expect(await blobs()).toEqual([sha256(model)])
  expect(sha256(await readFile(repository('snapshots', hub.commit, NAME)))).toBe(sha256(model))
}

describe('a download', () => {
  test('comes in parts over several connections, each byte once', async () => {
    await fetched()
    const [header, ...parts] = rangesOf()
    expect(header).toEqual([0, MIB - 1])
    const expected = Array.from({ length: Math.ceil(model.length / MIB) }, (_, index) => [
      index * MIB,
      Math.min(model.length, (index + 1) * MIB) - 1,
    ])
    expect(parts.sort(([a], [b]) => a - b)).toEqual(expected)
    await expectWhole()
    expect(events.findLast(({ type }) => type === 'progress')).toMatchObject({
      done: model.length,
      total: model.length,
    })
  })

  test('goes on behind the last byte when connections are cut', async () => {
    failFirst(...Array.from({ length: 6 }, (_, index): Fault => ({ kind: 'cut', after: 100_000 * (index + 1) })))
    await fetched()
    await expectWhole()
    expect(rangesOf().filter(([from]) => from % MIB !== 0).length).toBeGreaterThanOrEqual(3)
    expect(
      hub
        .downloadsOf(NAME)
        .slice(2)
        .every(({ ifRange }) => ifRange?.startsWith('"v1-')),
    ).toBe(true)
  })

  test('asks for a new address when the signature of the old one has expired', async () => {
    let downloads = 0
    hub.onDownload = () => {
      if (++downloads === 4) hub.expireSignatures()
      return undefined
    }
    await fetched()
    await expectWhole()
    const resolved = hub.requests.filter(({ url }) => url.includes('/resolve/'))
    expect(resolved.length).toBeGreaterThanOrEqual(2)
    expect(resolved.length).toBeLessThanOrEqual(5)
  })

  test('asks for a new address when a connection stalls', async () => {
    failFirst({ kind: 'stall', after: 50_000 })
    await fetched({}, { tuning: { ...FAST, stallMs: 400 } })
    await expectWhole()
    expect(hub.requests.filter(({ url }) => url.includes('/resolve/')).length).toBeGreaterThan(1)
    expect(notes()[0]).toMatch(/^127\.0\.0\.1:\d+: the server did not respond; trying again in 1 s$/)
  })

  test('waits as long as a busy server asks', async () => {
    failFirst({ kind: 'status', status: 429, headers: { 'retry-after': '1' } }, { kind: 'status', status: 503 })
    const began = performance.now()
    await fetched({}, { tuning: { ...FAST, connections: 1 } })
    await expectWhole()
    expect(performance.now() - began).toBeGreaterThan(950)
    expect(notes()).toEqual([
      expect.stringContaining('answered 429; trying'),
      expect.stringContaining('answered 503; trying'),
    ])
  })

  test('ends in words when the server asks for too much, or stays broken', async () => {
    failFirst({ kind: 'status', status: 429, headers: { 'retry-after': '7200' } })
    await expect(fetched()).rejects.toThrow(/answered 429 and asks to wait 7200 s; try again then$/)
    hub.onDownload = () => ({ kind: 'status', status: 500 })
    await expect(fetched()).rejects.toThrow(/^The download stopped: .* answered 500; check the network/)
    hub.onAsk = () => ({ kind: 'status', status: 429 })
    await expect(fetched()).rejects.toThrow(
      /^Cannot fetch acme\/nano: \S+ answered 429, and the cache .* has no files of it; it is limiting requests: wait some minutes, or set HF_TOKEN/,
    )
    expect(await readdir(home)).not.toContain('store')
    // Another token helps neither who has one, nor at an address that gets none.
    hub.onDownload = () => ({ kind: 'status', status: 429 })
    const settings = {
      endpoint: new URL(`${hub.url}/`),
      token: 'hf_x',
      cacheRoot: join(home, 'cache'),
      isOffline: false,
    }
    const address = `${hub.cdnUrl}/acme/nano/${NAME}?signature=1`
    for (const limited of [fetched({}, { settings }), fetched({ address })])
      await expect(limited).rejects.toThrow(/it is limiting requests: wait some minutes(; the same command .*)?$/)
  })

  test('goes on when another server calls the same bytes by another ETag', async () => {
    let downloads = 0
    hub.onDownload = () => {
      if (++downloads === 5) hub.version = 'v2'
      return undefined
    }
    await fetched()
    await expectWhole()
  })

  const settingsOf = (endpoint: string) => {
    return { endpoint: new URL(endpoint), token: null, cacheRoot: home, isOffline: false }
  }

  /** Has a variable name the proxy until the test ends. */
  async function useProxy(proxy: Server, variable: string, host: string): Promise<void> {
    await once(proxy.listen(0, '127.0.0.1'), 'listening')
    vi.stubEnv(variable, `${host}:${(proxy.address() as AddressInfo).port}`)
    onTestFinished(() => {
      vi.unstubAllEnvs()
      proxy.close()
    })
  }

  test.each(['127.0.0.1', 'http://127.0.0.1'])('goes through a proxy, which may be named as %s', async (host) => {
    const asked: (string | undefined)[] = []
    const proxy = createServer().on('connect', ({ url }, socket) => {
      asked.push(url)
      const behind = connect(Number(new URL(hub.url).port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n')
        socket.pipe(behind).pipe(socket)
      })
      for (const end of [socket, behind]) end.on('error', () => {})
    })
    await useProxy(proxy, 'http_proxy', host)
    hub.onAsk = () => ({ kind: 'status', status: 403 })
    await expect(fetched({}, { settings: settingsOf('http://hub.invalid/') })).rejects.toThrow(/gated or private/)
    expect(asked).toEqual(['hub.invalid:80'])
  })

  test('goes through none to an address in a network of NO_PROXY', async () => {
    const proxy = createServer().on('connect', (_request, socket) => {
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    })
    await useProxy(proxy, 'http_proxy', '127.0.0.1')
    hub.onAsk = () => ({ kind: 'status', status: 403 })
    vi.stubEnv('no_proxy', 'localhost, 10.0.0.0/8, fd00::/8')
    await expect(fetched({}, { settings: settingsOf(hub.url) })).rejects.toThrow(/the proxy answered 407/)
    vi.stubEnv('no_proxy', 'localhost, 127.0.0.0/8, fd00::/8')
    await expect(fetched({}, { settings: settingsOf(hub.url) })).rejects.toThrow(/gated or private/)
    const nowhere = settingsOf(hub.url.replace('127.0.0.1', '[::1]'))
    await expect(fetched({}, { settings: nowhere })).rejects.toThrow(/the proxy answered 407/)
    vi.stubEnv('no_proxy', 'localhost,::1')
    await expect(fetched({}, { settings: nowhere })).rejects.not.toThrow(/proxy/)
  })

  test('goes through a SOCKS proxy that resolves names, named for all protocols', async () => {
    const asked: string[] = []
    const proxy = createTcpServer((socket) => {
      socket
        .on('error', () => {})
        .once('data', () => {
          socket.write(Buffer.of(5, 0))
          socket.once('data', (request: Buffer) => {
            asked.push(request.subarray(5, 5 + request[4]!).toString())
            const behind = connect(Number(new URL(hub.url).port), '127.0.0.1', () => {
              socket.write(Buffer.of(5, 0, 0, 1, 0, 0, 0, 0, 0, 0))
              socket.pipe(behind).pipe(socket)
            })
            behind.on('error', () => {})
          })
        })
    })
    vi.stubEnv('HTTP_PROXY', '')
    await useProxy(proxy, 'ALL_PROXY', 'socks5h://127.0.0.1')
    hub.onAsk = () => ({ kind: 'status', status: 403 })
    await expect(fetched({}, { settings: settingsOf('http://hub.invalid/') })).rejects.toThrow(/gated or private/)
    expect(asked).toEqual(['hub.invalid'])
  })

  test('says that a proxy wants a login, and how an authority is trusted', async () => {
    const proxy = createServer().on('connect', (_request, socket) => {
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    })
    await useProxy(proxy, 'http_proxy', '127.0.0.1')
    await expect(fetched({}, { settings: settingsOf('http://hub.invalid/') })).rejects.toThrow(
      /hub\.invalid: the proxy answered 407, because it wants a user and a password/,
    )
    vi.unstubAllEnvs()
    const secure = createTlsServer({ key: CERTIFICATE, cert: CERTIFICATE })
    await once(secure.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void secure.close())
    const url = `https://127.0.0.1:${(secure.address() as AddressInfo).port}/`
    await expect(fetched({}, { settings: settingsOf(url) })).rejects.toThrow(
      /the server's certificate is not valid\), .* name the file of its certificate in NODE_EXTRA_CA_CERTS$/,
    )
  })

  test('works with a server that ignores ranges', async () => {
    hub.takesRanges = false
    failFirst({ kind: 'cut', after: 3_000_000 })
    await fetched()
    await expectWhole()
  })

  test('of wrong bytes is deleted, and only then starts again', async () => {
    failFirst({ kind: 'wrong' })
    await expect(fetched()).rejects.toThrow(
      /^nano-Q4_K_M\.gguf of acme\/nano arrived damaged: its hash is [0-9a-f]{12}\.\.\./,
    )
    expect(await blobs()).toEqual([])
    await fetched()
    await expectWhole()
  })

  test('does not believe a journal whose file was cut', async () => {
    const stop = new AbortController()
    hub.onDownload = ({ range }) => (range?.startsWith(`bytes=${5 * MIB}`) ? { kind: 'stall', after: 10 } : undefined)
    const report = (event: PullEvent) => {
      if (event.type === 'progress' && event.done > 6 * MIB) stop.abort()
    }
    await expect(fetched({}, { signal: stop.signal, report })).rejects.toThrow('aborted')
    const [incomplete] = (await blobs()).filter((name) => name.endsWith('.incomplete'))
    await truncate(repository('blobs', incomplete!), 1000)
    hub.onDownload = () => undefined
    await fetched()
    await expectWhole()
  })

  test('of a killed process goes on, and loses at most a part for each connection', async () => {
    // The last part never comes.
    hub.onDownload = ({ range }) => (range?.startsWith(`bytes=${10 * MIB}-`) ? { kind: 'stall', after: 10 } : undefined)
    const code = `
      import { pull } from ${JSON.stringify(resolve('src/hub/pull.ts'))}
      await pull({ address: 'acme/nano:Q4_K_M', quant: null, projector: 'auto', id: null }, {
        settings: { endpoint: new URL('${hub.url}/'), token: null, cacheRoot: '${join(home, 'cache')}', isOffline: false },
        store: '${join(home, 'store')}', available: 2 ** 33, signal: new AbortController().signal,
        tuning: ${JSON.stringify(FAST)},
        report: () => {},
      })`
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const done = async () => {
      const text = await readFile(repository('blobs', `${sha256(model)}.lookout.incomplete.json`), 'utf8').catch(
        () => '',
      )
      return text === '' ? [] : JSON.parse(text).done
    }
    await expect.poll(done).toEqual([[0, 10 * MIB]])
    child.kill('SIGKILL')
    await new Promise((ended) => child.once('exit', ended))
    expect(await blobs()).toContain(`${sha256(model)}.lock`)
    hub.onDownload = () => undefined
    const before = hub.downloadsOf(NAME).length
    await fetched()
    await expectWhole()
    expect(rangesOf().slice(before)).toEqual([
      [0, MIB - 1],
      [10 * MIB, model.length - 1],
    ])
  })

  test('does not begin on a disk without room', async () => {
    const tuning = { ...FAST, spareBytes: 2 ** 60 }
    await expect(fetched({}, { tuning })).rejects.toThrow(
      /^The disk of .* has .* free, but 10\.1 MiB are to be downloaded and /,
    )
    expect(await blobs()).toEqual([])
  })

  test('of a file at an address starts again when the file changes', async () => {
    const address = `${hub.cdnUrl}/acme/nano/${NAME}?signature=1`
    let downloads = 0
    hub.onDownload = () => {
      if (++downloads === 4) hub.version = 'v2'
      return undefined
    }
    const card = await fetched({ address })
    expect(sha256(await readFile(card.model))).toBe(sha256(model))
    expect(notes()).toEqual([`${NAME} changed on the server; fetching it from its beginning`])
  })

  test('of a file at an address is what is there now, also where the size is the same', async () => {
    const address = `${hub.cdnUrl}/acme/nano/${NAME}?signature=1`
    await fetched({ address })
    const whole = () => rangesOf().filter(([, to]) => to > MIB - 1).length
    const before = whole()
    await fetched({ address })
    expect(whole()).toBe(before)
    const other = Buffer.concat([model.subarray(0, -1), Buffer.from([model.at(-1)! ^ 1])])
    hub.repositories.get('acme/nano')!.set(NAME, other)
    const { model: path } = await fetched({ address })
    expect(sha256(await readFile(path))).toBe(sha256(other))
    await hub[Symbol.asyncDispose]()
    await fetched({ address })
    expect(notes().at(-1)).toMatch(/^the server cannot be reached .*; using the local file$/)
    // A server that names no state of its files, and a version of Lookout that wrote no journal.
    const journal = JSON.parse(await readFile(`${path}.json`, 'utf8'))
    await writeFile(`${path}.json`, JSON.stringify({ ...journal, etag: null }))
    expect((await fetched({ address })).model).toBe(path)
    await rm(`${path}.json`)
    expect((await fetched({ address })).model).toBe(path)
    await writeFile(`${path}.json`, JSON.stringify({ ...journal, done: [] }))
    await expect(fetched({ address })).rejects.toThrow(/^The download stopped: /)
  })

  test.each([
    { what: 'that an earlier version fetched', hasCard: true },
    { what: 'that a killed pull left', hasCard: false },
  ])('of a file at an address replaces one $what', async ({ hasCard }) => {
    const address = `${hub.cdnUrl}/acme/nano/${NAME}?signature=1`
    const { file, model: path } = await fetched({ address })
    await rm(`${path}.json`)
    if (!hasCard) await rm(file)
    expect((await fetched({ address })).model).toBe(path)
    expect((await stat(`${path}.json`)).isFile()).toBe(true)
  })

  test('of a file at an address has the credentials in it, and shows them nowhere', async () => {
    const address = new URL(`${hub.cdnUrl}/acme/nano/${NAME}?signature=1`)
    hub.onDownload = ({ authorization }) =>
      authorization === `Basic ${Buffer.from('me@x:s:cret').toString('base64')}`
        ? undefined
        : { kind: 'status', status: 401 }
    const settings = { endpoint: new URL(`${hub.url}/`), token: 'hf_x', cacheRoot: home, isOffline: false }
    const pulled = (userinfo: string, path = address.href) =>
      fetched({ address: path.replace('://', `://${userinfo}`) }, { settings })
    await expect(pulled('')).rejects.toThrow(
      /^127\.0\.0\.1:\d+ denied access to nano-Q4_K_M\.gguf of .* \(401\): give a user and a password in the address, as in/,
    )
    const wrong = await pulled('me:s3cret@').catch((error: Error) => error)
    expect((wrong as Error).message).toMatch(/\(401\): check the user and the password in the address$/)
    const card = await pulled('me%40x:s:cret@')
    expect(sha256(await readFile(card.model))).toBe(sha256(model))
    // A password with a slash is no part of an address.
    const broken = await pulled('me:s/cret@').catch((error: Error) => error)
    expect((broken as Error).message).toMatch(/^'http:\/\/\*\*\*@127\.0\.0\.1:.*' is not an address; /)
    const [right, bad] = ['me%40x:s:cret@', 'me:s/cret@'].map((one) => address.href.replace('://', `://${one}`))
    const other = await fetched({ address: right!, projector: bad! }, { settings }).catch((error: Error) => error)
    expect((other as Error).message).toMatch(/^--mmproj: .*' is not an address$/)
    const none = await pulled('me%40x:s3cret@', `${hub.cdnUrl}/x`).catch((error: Error) => error)
    const told = [wrong, broken, other, none, card, events, await readFile(card.file, 'utf8')]
    expect(JSON.stringify(told, (_, value) => (value instanceof Error ? value.message : value))).not.toMatch(/s.cret/)
    // The hub's own downloads lead to another host, which gets nothing.
    hub.onDownload = () => undefined
    const endpoint = new URL(`${hub.url.replace('://', '://me:secret@')}/`)
    await fetched({}, { settings: { ...settings, endpoint, token: null } })
    expect(hub.requests.filter(({ server }) => server === 'api').every(({ authorization }) => authorization)).toBe(true)
    expect(hub.requests.at(-1)).toMatchObject({ server: 'cdn', authorization: null })
  })

  test('of files with one name at two addresses replaces neither', async () => {
    const other = Buffer.concat([projector.subarray(0, -1), Buffer.from([projector.at(-1)! ^ 1])])
    hub.repositories.set(
      'acme/first',
      new Map([
        [NAME, model],
        ['mmproj.gguf', projector],
      ]),
    )
    hub.repositories.set(
      'acme/second',
      new Map([
        [NAME, projector],
        ['mmproj.gguf', other],
      ]),
    )
    const at = (path: string) => `${hub.cdnUrl}/acme/${path}?signature=1`
    // The model and its encoder have one name too.
    const first = await fetched({ address: at(`first/${NAME}`), projector: at(`second/${NAME}`) })
    const bytes = async (path: string | null) => sha256(await readFile(path!))
    expect([await bytes(first.model), await bytes(first.projector)]).toEqual([sha256(model), sha256(projector)])
    hub.repositories.get('acme/second')!.set(NAME, model)
    await expect(fetched({ address: at(`second/${NAME}`) })).rejects.toThrow(
      /^nano-Q4_K_M was already pulled from .*\/acme\/first\/nano-Q4_K_M\.gguf: choose another id with --id, or pass /,
    )
    const [one, two] = [
      await fetched({ projector: at('first/mmproj.gguf'), id: 'one' }),
      await fetched({ projector: at('second/mmproj.gguf'), id: 'two' }),
    ]
    expect([await bytes(one.projector), await bytes(two.projector)]).toEqual([sha256(projector), sha256(other)])
    const third = await fetched({ address: at(`second/${NAME}`), id: 'nano-Q4_K_M' })
    expect(events.at(-1)).toMatchObject({ replaces: `${hub.cdnUrl}/acme/first/${NAME}` })
    // What the replaced card alone had is gone.
    const left = await readdir(join(home, 'store/nano-Q4_K_M'), { recursive: true })
    expect(left.filter((name) => name.endsWith('.gguf'))).toEqual([
      third.model.slice(join(home, 'store/nano-Q4_K_M/').length),
    ])
  })
})

describe('what the hub sends is not trusted', () => {
  test.each([
    '../../evil-Q4_K_M.gguf',
    '/etc/evil-Q4_K_M.gguf',
    'a\\..\\evil-Q4_K_M.gguf',
    'a/./evil.gguf',
    'evil\0.gguf',
  ])('a path out of the cache: %j', async (path) => {
    hub.repositories.set('acme/nano', new Map([[path, model]]))
    await expect(fetched()).rejects.toThrow(
      /^The hub names a file '.*', which would lie outside of the cache: check HF_ENDPOINT$/s,
    )
  })

  test('a redirect that does not end, and one away from https', async () => {
    const loop = { kind: 'status', status: 302, headers: { location: '/elsewhere' } } as const
    hub.onAsk = () => loop
    await expect(fetched()).rejects.toThrow(/redirects more than 5 times/)
    await expect(fetched({ address: 'https://127.0.0.1:1/a.gguf' })).rejects.toThrow(/^The download stopped: /)
    const settings = { endpoint: new URL('https://huggingface.co/'), token: 'hf_x', cacheRoot: home, isOffline: false }
    await expect(fetched({ address: `${hub.url}/a.gguf` }, { settings })).rejects.toThrow(
      /^Downloads from 127\.0\.0\.1:\d+ over http are not allowed: use an https address$/,
    )
  })

  test('a broken file is found out before it is downloaded', async () => {
    const broken = Buffer.concat([Buffer.from('GGUF\x03\0\0\0'), Buffer.alloc(5000, 1)])
    for (const bytes of [broken, Buffer.alloc(5000), model.subarray(0, 300_000)]) {
      hub.repositories.set('acme/nano', new Map([[NAME, bytes]]))
      await expect(fetched()).rejects.toThrow(/^nano-Q4_K_M\.gguf of acme\/nano cannot be used: .*\. Get another copy/)
    }
    expect(await blobs()).toEqual([])
  })
})

describe('projectors', () => {
  /** The shipped projector with another dimension. */
  async function withDimension(dimension: number): Promise<Buffer> {
    const path = join(home, 'mmproj.gguf')
    await writeGguf(path, {
      metadata: new Map([
        ['general.architecture', string('clip')],
        ['clip.has_vision_encoder', bool(true)],
        ['clip.vision.projector_type', string('qwen3vl_merger')],
        ['clip.vision.projection_dim', uint32(dimension)],
      ]),
      tensors: [],
    })
    return readFile(path)
  }

  test('one of another model is skipped, and refused when it is the only one', async () => {
    const other = await withDimension(2560)
    hub.repositories.get('acme/nano')!.set('mmproj-F16.gguf', other).set('mmproj-Q8_0.gguf', projector)
    const card = await fetched()
    expect(card.projector).toBe(repository('snapshots', hub.commit, 'mmproj-Q8_0.gguf'))
    hub.repositories.get('acme/nano')!.delete('mmproj-Q8_0.gguf')
    await expect(fetched()).rejects.toThrow(
      /^acme\/nano has no projector that fits nano-Q4_K_M\.gguf \(mmproj-F16\.gguf: it makes vectors of 2560 numbers, and the language model takes 256\)\. Name one with --mmproj/,
    )
    await expect(fetched({ projector: 'mmproj-F16.gguf' })).rejects.toThrow(
      /^mmproj-F16\.gguf belongs to another model/,
    )
    await expect(fetched({ projector: 'none.gguf' })).rejects.toThrow(/has no such projector; it has mmproj-F16\.gguf$/)
    const own = join(home, 'own.gguf')
    await writeFile(own, projector)
    expect((await fetched({ projector: own })).projector).toBe(own)
    expect((await fetched({ projector: null })).projector).toBe(null)
  })

  test('with deepstack, rows of all layers fit', async () => {
    const { metadata, tensors } = await readGguf('models/lookout-nano/model-f16.gguf')
    const path = join(home, 'deep.gguf')
    await writeGguf(path, {
      metadata: new Map(metadata).set('qwen3vl.n_deepstack_layers', uint32(3)),
      tensors: tensors.slice(0, 1),
    })
    const files = hub.repositories.get('acme/nano')!
    files.set(NAME, await readFile(path)).set('mmproj-F16.gguf', await withDimension(4 * 256))
    expect((await fetched()).projector).toMatch(/mmproj-F16\.gguf$/)
  })
})

test('a card of the same id is replaced; what its owner wrote into it stays', async () => {
  const { file } = await fetched()
  const card = JSON.parse(await readFile(file, 'utf8'))
  await writeFile(file, JSON.stringify({ ...card, license: 'mine', source: 'hf:acme/nano@old' }))
  await fetched()
  expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({ ...card, license: 'mine' })
  expect(events.at(-1)).toMatchObject({ type: 'done', replaces: 'hf:acme/nano@old' })
  await expect(fetched({ address: 'acme/nano' })).resolves.toMatchObject({ ids: ['acme/nano:Q4_K_M'] })
})

test('the KV cache counts in the memory as the card that is there stores it', async () => {
  const memory = () => events.findLast((event) => event.type === 'choice')!.choices[0]!.memory
  const { file } = await fetched()
  const before = memory()
  const card = JSON.parse(await readFile(file, 'utf8'))
  await writeFile(file, JSON.stringify({ ...card, engine: { ...card.engine, kvType: 'q8_0' } }))
  await fetched()
  const saved = before - memory()
  await writeFile(file, JSON.stringify({ ...card, engine: { ...card.engine, kvType: 'f16' } }))
  await fetched()
  expect([saved > 0, memory()]).toEqual([true, before])
})

test.each(['v1%2Fx', 'refs%2Fpr%2F1', 'refs/pr/1'])('the page of a file at %s is its address', async (revision) => {
  const card = await fetched({ address: `${hub.url}/acme/nano/blob/${revision}/${NAME}` })
  expect(card.source).toBe(`hf:acme/nano@${hub.commit}`)
  expect(await readFile(repository('refs', decodeURIComponent(revision)), 'utf8')).toBe(hub.commit)
})

test('a repository without models, and a quantisation that is not there', async () => {
  hub.repositories.set('acme/plain', new Map([['model.safetensors', model]]))
  await expect(fetched({ address: 'acme/plain' })).rejects.toThrow(
    /^acme\/plain has no GGUF model: look for a repository .* with GGUF in its name$/,
  )
  hub.repositories.get('acme/nano')!.set('nano-F16.gguf', model)
  await expect(fetched({ quant: 'Q3_K' })).rejects.toThrow(/^acme\/nano has no Q3_K; it has Q4_K_M, F16$/)
})

test('a file that another model or another snapshot uses stays until that goes', async () => {
  const files = hub.repositories.get('acme/nano')!
  files.set('mmproj-F16.gguf', projector).set('nano-Q8_0.gguf', Buffer.concat([model, Buffer.alloc(5)]))
  for (const quant of ['Q4_K_M', 'Q8_0']) await fetched({ quant })
  const remove = (name: string, keepFiles = false) =>
    removeModel(name, { store: join(home, 'store'), cacheRoot: join(home, 'cache'), keepFiles })
  await expect(remove('acme/nano')).rejects.toThrow(
    'Several models are named acme/nano; choose one of acme/nano:Q4_K_M, acme/nano:Q8_0',
  )
  expect(await remove('acme/nano:Q4_K_M')).toMatchObject({
    freedBytes: model.length,
    kept: [{ path: expect.stringContaining('mmproj-F16.gguf'), reason: 'acme/nano:Q8_0 uses it' }],
  })
  expect(await blobs()).toHaveLength(2)
  await mkdir(repository('snapshots', 'other'))
  await symlink(`../../blobs/${sha256(projector)}`, repository('snapshots', 'other', 'mmproj-F16.gguf'))
  const second = await remove('acme/nano')
  expect(second).toMatchObject({
    freedBytes: model.length + 5,
    kept: [{ reason: expect.stringContaining('another snapshot') }],
  })
  expect(await blobs()).toEqual([sha256(projector)])
  await fetched()
  expect(await remove('acme/nano', true)).toMatchObject({ freedBytes: 0, kept: [] })
  expect(await blobs()).toHaveLength(2)
})

test('a pull of a new commit deletes nothing that others may use, and what is kept is there', async () => {
  const files = hub.repositories.get('acme/nano')!
  files.set('mmproj-F16.gguf', projector).set('nano-Q8_0.gguf', Buffer.concat([model, Buffer.alloc(5)]))
  const remove = (name: string) =>
    removeModel(name, { store: join(home, 'store'), cacheRoot: join(home, 'cache'), keepFiles: false })
  const [first, second] = ['1', '2'].map((digit) => digit.repeat(40)) as [string, string]
  hub.commit = first
  for (const quant of ['Q4_K_M', 'Q8_0']) await fetched({ quant })
  hub.commit = second
  files.set(NAME, Buffer.concat([model, Buffer.alloc(7)]))
  await fetched()
  expect((await readdir(repository('snapshots', first))).sort()).toEqual(['mmproj-F16.gguf', NAME, 'nano-Q8_0.gguf'])
  expect(sha256(await readFile(repository('snapshots', first, NAME)))).toBe(sha256(model))
  const { kept } = await remove('acme/nano:Q8_0')
  expect(kept).toContainEqual({ path: repository('blobs', sha256(projector)), reason: 'acme/nano:Q4_K_M uses it' })
  for (const { path } of kept) expect((await stat(path)).isFile()).toBe(true)
  const older = repository('snapshots', first, NAME)
  expect((await remove('acme/nano')).kept).toEqual([
    { path: older, reason: expect.stringMatching(/^it is of another commit, .*; 10\.1 MiB$/) },
  ])
  expect(sha256(await readFile(older))).toBe(sha256(model))
})

test('a file that an added model names by its blob stays', async () => {
  const { model: entry } = await fetched()
  const blob = repository('blobs', sha256(model))
  const store = join(home, 'store')
  await storeCard(store, { id: 'own', aliases: [], source: `file:${blob}`, model: blob, projector: null })
  expect(await removeModel('acme/nano', { store, cacheRoot: join(home, 'cache'), keepFiles: false })).toMatchObject({
    freedBytes: 0,
    kept: [{ path: entry, reason: 'own uses it' }],
  })
  expect(sha256(await readFile(blob))).toBe(sha256(model))
})

test('without a hub nothing else than the cache is used', async () => {
  await mkdir(repository('refs'), { recursive: true })
  await writeFile(repository('refs/main'), '../../../../etc')
  const offline = { endpoint: new URL(hub.url), token: null, cacheRoot: join(home, 'cache'), isOffline: true }
  await expect(fetched({}, { settings: offline })).rejects.toThrow(HubError)
  expect(hub.requests).toEqual([])
})
