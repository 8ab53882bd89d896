import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { readCatalogue } from '../src/catalogue/catalogue.ts'
import type { CatalogueEntry } from '../src/catalogue/catalogue-schema.ts'
import { chat } from '../src/commands/chat.ts'
import type { Command } from '../src/commands/command.ts'
import { detect } from '../src/commands/detect.ts'
import { add } from '../src/commands/models/add.ts'
import { card } from '../src/commands/models/card.ts'
import { doctor } from '../src/commands/models/doctor.ts'
import { models } from '../src/commands/models/models.ts'
import { pull } from '../src/commands/models/pull.ts'
import { rm as remove } from '../src/commands/models/rm.ts'
import { readConfig } from '../src/config/config.ts'
import { describeMachine } from '../src/inference/local/host/machine-speed.ts'
import { cacheDirectory } from '../src/setup/native-library.mjs'
import { bareEnvironment, type Outcome, outcomeHere, outcomeOf, startLookout } from './support/command-line.ts'
import { type FakeHub, gitName, serveEntry, sha256, startFakeHub } from './support/fake-hub.ts'

/** The commands, against a hub of the test's own. */
let hub: FakeHub
let directory: string
let model: Buffer
let projector: Buffer

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-pull-'))
  model = await readFile('models/lookout-nano/model-f16.gguf')
  projector = await readFile('models/lookout-nano/mmproj-f16.gguf')
})
afterAll(() => rm(directory, { recursive: true, force: true }))

/** A home of its own for each test: a cache and a data directory. */
let home: string
beforeEach(async () => {
  home = await mkdtemp(join(directory, 'home-'))
  hub = await startFakeHub()
  onTestFinished(() => hub[Symbol.asyncDispose]())
  // Larger and smaller copies: what follows the tensors is not read.
  hub.repositories.set(
    'acme/nano-GGUF',
    new Map([
      ['README.md', Buffer.from('# Nano')],
      ['nano-Q2_K.gguf', model.subarray(0, -4096)],
      ['nano-Q4_K_M.gguf', model],
      ['nano-Q8_0.gguf', Buffer.concat([model, Buffer.alloc(2 ** 20)])],
      ['nano-F16.gguf', Buffer.concat([model, Buffer.alloc(2 ** 21)])],
      ['mmproj-nano-BF16.gguf', projector],
      ['mmproj-nano-F16.gguf', Buffer.concat([projector, Buffer.alloc(1)])],
      ['nano-imatrix.gguf', Buffer.from('x')],
    ]),
  )
})

const environment = (changes: Record<string, string> = {}) => ({
  HOME: home,
  HF_HOME: join(home, 'hf'),
  HF_ENDPOINT: hub.url,
  LOOKOUT_DATA_DIR: join(home, 'data'),
  // What was compiled for this machine.
  LOOKOUT_CACHE_DIR: cacheDirectory(),
  ...changes,
})

// What is found out of a model afterwards, test/weights/examinations.test.ts shows.
const unchecked = (given: readonly string[]) =>
  given[0] === 'pull' && /^[^-]/.test(given[1] ?? '') ? [...given, '--no-check'] : given

/** A command as a user starts it. */
function started(given: readonly string[], changes: Record<string, string> = {}): Promise<Outcome> {
  return outcomeOf(startLookout(unchecked(given), environment(changes)))
}

const COMMANDS: Readonly<Record<string, Command>> = { add, card, chat, detect, doctor, models, pull, rm: remove }

/** The same in this process, one at a time: to start and load one for each command would take most of the time. */
function lookout(given: readonly string[], changes: Record<string, string> = {}): Promise<Outcome> {
  const [name, ...args] = unchecked(given)
  return outcomeHere(COMMANDS[name!]!, args, environment(changes))
}

const cache = (...path: string[]) => join(home, 'hf/hub/models--acme--nano-GGUF', ...path)
const cardOf = async (folder: string) =>
  JSON.parse(await readFile(join(home, 'data/models', folder, 'card.json'), 'utf8'))
const blobs = async () => (await readdir(cache('blobs')).catch(() => [])).sort()
const eventsOf = ({ stdout }: Outcome) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

describe('lookout pull', () => {
  test('fetches what suits the memory into the shared cache, and writes a card', async () => {
    const pulled = await started(['pull', 'acme/nano-GGUF'], { HF_TOKEN: 'hf_secret' })
    expect(pulled).toMatchObject({ code: 0 })
    expect(pulled.stdout).toMatch(/^\* +Q8_0 +.* yes$/m)
    expect(pulled.stdout).toMatch(/^ +Q4_K_M +.* yes$/m)
    expect(pulled.stdout).toContain('Projector: mmproj-nano-F16.gguf (F16 is preferred to BF16)')
    expect(pulled.stderr).toMatch(/^nano-Q8_0\.gguf: 11\.1 MiB of 11\.1 MiB \(100 %\)/m)

    const bytes = hub.repositories.get('acme/nano-GGUF')!.get('nano-Q8_0.gguf')!
    const entry = cache('snapshots', hub.commit, 'nano-Q8_0.gguf')
    expect(await readFile(cache('refs/main'), 'utf8')).toBe(hub.commit)
    expect(await readlink(entry)).toBe(`../../blobs/${sha256(bytes)}`)
    expect(sha256(await readFile(entry))).toBe(sha256(bytes))
    expect(await blobs()).toHaveLength(2)
    expect(await cardOf('acme--nano-GGUF--Q8_0')).toEqual({
      serves: [{ id: 'acme/nano-GGUF:Q8_0' }],
      source: `hf:acme/nano-GGUF@${hub.commit}`,
      engine: { model: entry, projector: cache('snapshots', hub.commit, 'mmproj-nano-F16.gguf') },
    })

    // The token is the hub's, and not the other server's.
    const tokens = (server: string) =>
      new Set(hub.requests.filter((request) => request.server === server).map(({ authorization }) => authorization))
    expect(tokens('api')).toEqual(new Set(['Bearer hf_secret']))
    expect(tokens('cdn')).toEqual(new Set([null]))
    // Pages of two files each.
    expect(hub.requests.filter(({ url }) => url.includes('/tree/'))).toHaveLength(4)
  })

  test('finds what other programs have fetched, also without the hub', async () => {
    const files = hub.repositories.get('acme/nano-GGUF')!
    const put = async (path: string) => {
      const bytes = files.get(path)!
      await mkdir(cache('blobs'), { recursive: true })
      await mkdir(cache('snapshots', hub.commit), { recursive: true })
      await writeFile(cache('blobs', sha256(bytes)), bytes)
      await symlink(`../../blobs/${sha256(bytes)}`, cache('snapshots', hub.commit, path))
    }
    await put('nano-Q4_K_M.gguf')
    await put('mmproj-nano-F16.gguf')
    await mkdir(cache('refs'))
    await writeFile(cache('refs/main'), hub.commit)

    const found = await lookout(['pull', 'hf://acme/nano-GGUF:q4_k_m', '--json'])
    expect(found).toMatchObject({ code: 0, stderr: '' })
    expect(eventsOf(found).map(({ type }) => type)).toEqual(['choice', 'found', 'found', 'done'])
    expect(hub.requests.filter(({ server }) => server === 'cdn')).toEqual([])

    await hub[Symbol.asyncDispose]()
    await rm(join(home, 'data'), { recursive: true })
    const offline = await lookout(['pull', 'acme/nano-GGUF'])
    expect(offline.code).toBe(0)
    expect(offline.stderr).toMatch(
      /the hub cannot be reached \(.*connection refused\); using what the cache has of acme\/nano/,
    )
    expect(await cardOf('acme--nano-GGUF--Q4_K_M')).toMatchObject({ source: `hf:acme/nano-GGUF@${hub.commit}` })
    const none = await lookout(['pull', 'acme/other'])
    expect(none).toMatchObject({ code: 1, stdout: '' })
    expect(none.stderr).toMatch(/lookout: Cannot fetch acme\/other: the hub cannot be reached .* check the network/)
  })

  test('stops at Ctrl-C and goes on with the same command', async () => {
    hub.onDownload = ({ range }) =>
      range?.startsWith('bytes=0-') && !range.endsWith('-1048575') ? { kind: 'stall', after: 3e6 } : undefined
    const child = spawn(
      process.execPath,
      ['src/main.ts', 'pull', 'acme/nano-GGUF:Q4_K_M', '--no-mmproj', '--json', '--no-check'],
      {
        env: { ...bareEnvironment(), ...environment() },
      },
    )
    const text = (stream: NodeJS.ReadableStream) => {
      const kept = { text: '' }
      stream.setEncoding('utf8').on('data', (piece: string) => {
        kept.text += piece
      })
      return kept
    }
    const [stdout, stderr] = [text(child.stdout), text(child.stderr)]
    await expect.poll(() => stdout.text).toMatch(/"progress".*"done":[1-9]/)
    child.kill('SIGINT')
    expect(await once(child, 'close')).toEqual([130, null])
    expect(stderr.text).toBe('lookout: stopped; the same command goes on where it stopped\n')
    expect(await readdir(home)).not.toContain('data')

    hub.onDownload = () => undefined
    const before = hub.requests.length
    const pulled = await lookout(['pull', 'acme/nano-GGUF:Q4_K_M', '--no-mmproj'])
    // It is for text because that was asked for: nothing warns of it.
    expect(pulled).toMatchObject({ code: 0, stderr: expect.not.stringContaining('engine.projector') })
    const servedBy = async () => (await cardOf('acme--nano-GGUF--Q4_K_M')).serves
    expect(await servedBy()).toEqual([{ id: 'acme/nano-GGUF:Q4_K_M', modalities: ['text'] }])
    const later = hub.requests
      .slice(before)
      .filter(({ server, range }) => server === 'cdn' && !/^bytes=0-/.test(range!))
    expect(later).toEqual([
      expect.objectContaining({
        range: expect.stringMatching(/^bytes=[1-9]\d{4,}-/),
        ifRange: expect.stringMatching(/^"v1-/),
      }),
    ])
    expect(await blobs()).toEqual([sha256(model)])
    expect(await lookout(['pull', 'acme/nano-GGUF:Q4_K_M', '--no-check'])).toMatchObject({ code: 0 })
    expect(await servedBy()).toEqual([{ id: 'acme/nano-GGUF:Q4_K_M' }])
  })

  test('two at once do not fight: the second waits for the first', async () => {
    const both = await Promise.all([1, 2].map(() => started(['pull', 'acme/nano-GGUF:Q4_K_M'])))
    expect(both.map(({ code }) => code)).toEqual([0, 0])
    expect(await blobs()).toHaveLength(2)
    const whole = hub.downloadsOf('nano-Q4_K_M.gguf').filter(({ range }) => range === `bytes=0-${model.length - 1}`)
    expect(whole).toHaveLength(1)
  })

  test('a model in parts: all of them are fetched', async () => {
    const parts = [model, Buffer.from('second part'), Buffer.alloc(5000, 3)]
    const name = (part: number) => `Q4_K_M/big-Q4_K_M-0000${part}-of-00003.gguf`
    hub.repositories.set('acme/nano-GGUF', new Map(parts.map((bytes, index) => [name(index + 1), bytes])))
    const pulled = await lookout(['pull', 'acme/nano-GGUF'])
    expect(pulled).toMatchObject({ code: 0 })
    for (const [index, bytes] of parts.entries()) {
      expect(sha256(await readFile(cache('snapshots', hub.commit, name(index + 1))))).toBe(sha256(bytes))
    }
    // A small file is not in LFS: git names it, and the hub has its bytes itself.
    expect(await readlink(cache('snapshots', hub.commit, name(2)))).toBe(`../../../blobs/${gitName(parts[1]!)}`)
    expect(pulled.stdout).toContain('acme/nano-GGUF:Q4_K_M is ready, for text only')
    const removed = await lookout(['rm', 'acme/nano-GGUF'])
    expect(removed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Removed .*; 10\.1 MiB freed\n$/) })
    expect(await readdir(join(home, 'hf/hub'))).toEqual([])
  })

  test('a file at an address, with a projector', async () => {
    const at = (file: string) => `${hub.cdnUrl}/acme/nano-GGUF/${file}?signature=1&secret=1`
    const pulled = await lookout([
      'pull',
      at('nano-Q4_K_M.gguf'),
      '--mmproj',
      at('mmproj-nano-BF16.gguf'),
      '--id',
      'mine',
    ])
    expect(pulled).toMatchObject({ code: 0 })
    const folder = join(home, 'data/models/mine')
    expect(await cardOf('mine')).toEqual({
      serves: [{ id: 'mine' }],
      source: `${hub.cdnUrl}/acme/nano-GGUF/nano-Q4_K_M.gguf`,
      engine: { model: join(folder, 'nano-Q4_K_M.gguf'), projector: join(folder, 'mmproj-nano-BF16.gguf') },
    })
    const files = ['mmproj-nano-BF16.gguf', 'nano-Q4_K_M.gguf']
    expect((await readdir(folder)).sort()).toEqual(['card.json', ...files.flatMap((file) => [file, `${file}.json`])])
    expect(await lookout(['rm', 'mine'])).toMatchObject({ code: 0, stdout: 'Removed mine; 18.7 MiB freed\n' })
    expect(await readdir(join(home, 'data/models'))).toEqual([])
  })
})

describe('the catalogue', () => {
  const SHORT = 'qwen3-vl-4b'
  const REPOSITORY = 'Qwen/Qwen3-VL-4B-Instruct-GGUF'
  const FOLDER = 'Qwen--Qwen3-VL-4B-Instruct-GGUF--'
  const aliasesOf = async (quant: string) => (await cardOf(FOLDER + quant)).serves[0].aliases
  /** What keeps each model from being served: first that of the settings. */
  const problems = async () => {
    const listed = await lookout(['models', '--json'])
    expect(listed.stderr).not.toContain('left out')
    return JSON.parse(listed.stdout).map(({ problem }: { readonly problem: string | null }) => problem)
  }
  beforeAll(async () => {
    // As if it had been measured: that takes seconds, and needs a machine that is not busy.
    const machine = await describeMachine(readConfig({ ...bareEnvironment(), LOOKOUT_DATA_DIR: directory }).backend)
    const speed = { bytesPerSecond: 20e9, multiplyAddsPerSecond: 200e9 }
    await writeFile(join(directory, 'machine-speed.json'), JSON.stringify({ machine, speed }))
  })
  beforeEach(async () => {
    await mkdir(join(home, 'data'))
    await cp(join(directory, 'machine-speed.json'), join(home, 'data/machine-speed.json'))
    await serveEntry(hub, SHORT, { model, projector })
  })

  test('without a name lists what fits, at 80 columns, and asks no server', async () => {
    const { models } = await readCatalogue()
    const listed = await lookout(['pull'], { LOOKOUT_MODEL_MEMORY: '6' })
    expect(listed).toMatchObject({ code: 0, stderr: '' })
    expect(listed.stdout).toMatch(/^NAME +SIZE +MEMORY +FITS +TOKENS\/S +LICENCE$/m)
    expect(listed.stdout).toMatch(
      /^qwen3-vl-2b +\d\.\d GiB +\d\.\d GiB +(yes|tight) +(about [\d.]+|-) +Apache-2\.0\n {2}for general use, /m,
    )
    expect(listed.stdout).toMatch(/^ {2}npx lookout pull \S+$/m)
    expect(listed.stdout).toContain('docs/choosing.md')
    for (const { name } of models) expect(listed.stdout).toContain(name)
    expect(Math.max(...listed.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
    const none = await lookout(['pull'], { LOOKOUT_MODEL_MEMORY: '0.1' })
    expect(none.stdout).toMatch(
      /^None of the catalogue's models fits 102\.4 MiB of memory\.\n\nToo large for this machine/,
    )
    const json = await lookout(['pull', '--json'])
    const found: { name: string; served_as: string | null }[] = JSON.parse(json.stdout)
    expect(found.map(({ name }) => name).sort()).toEqual(models.map(({ name }) => name).sort())
    expect(found.every(({ served_as: id }) => id === null)).toBe(true)
    expect(hub.requests).toEqual([])
    const unnamed = await lookout(['pull', '--quant', 'Q8_0'])
    expect(unnamed).toMatchObject({ code: 1, stderr: 'lookout: --quant needs a MODEL; see --help\n' })
  })

  test('a name, in any case, is fetched as the list says, and is a name of the model from then on', async () => {
    const entryOf = async () => {
      const listed: Record<string, unknown>[] = JSON.parse((await lookout(['pull', '--json'])).stdout)
      return listed.find(({ name }) => name === SHORT)!
    }
    const { quant } = await entryOf()
    const id = `${REPOSITORY}:${quant}`
    const pulled = await lookout(['pull', 'Qwen3-VL-4B'])
    expect(pulled).toMatchObject({ code: 0 })
    expect(pulled.stdout).toContain('Projector: mmproj-Qwen3VL-4B-Instruct-F16.gguf (the catalogue names it)')
    expect(pulled.stdout).toContain(`${id} is ready, also as ${SHORT}, ${SHORT}:${quant}\n`)
    expect(await entryOf()).toMatchObject({ served_as: id })
    expect((await lookout(['pull'])).stdout).toContain(`\n  here already, as ${id}\n`)
    expect((await lookout(['models'])).stdout).toContain(`${id}, ${SHORT}, ${SHORT}:${quant}`)
    expect((await lookout(['card', 'show', 'QWEN3-VL-4B', '--json'])).stdout).toContain(id)

    const asked = await started(['chat', SHORT, 'docs/pictures/shapes.png', 'What is this?', '--max-tokens', '4'])
    expect(asked).toMatchObject({ code: 0, stdout: expect.stringMatching(/\S/) })
    const removed = await lookout(['rm', SHORT])
    expect(removed.stdout).toMatch(new RegExp(`^Removed ${id}; \\d`))
    for (const args of [
      ['chat', SHORT, 'docs/pictures/shapes.png'],
      ['detect', '--model', SHORT, 'docs/pictures/shapes.png'],
      ['card', 'show', SHORT],
      ['doctor', SHORT],
    ]) {
      const message = `lookout: '${SHORT}' is not here yet; get it with: npx lookout pull ${SHORT}\n`
      expect(await lookout(args), args.join(' ')).toMatchObject({ code: 1, stderr: message })
    }
  })

  test('of two quantisations the latest has the name, and the other one gets it when that is removed', async () => {
    for (const quant of ['Q8_0', 'q4_k_m']) {
      expect(await lookout(['pull', `${SHORT}:${quant}`, '--no-mmproj'])).toMatchObject({ code: 0 })
    }
    expect(await aliasesOf('Q8_0')).toEqual([`${SHORT}:Q8_0`])
    expect(await aliasesOf('Q4_K_M')).toEqual([SHORT, `${SHORT}:Q4_K_M`])
    expect(await problems()).toEqual([null, null, null])
    const unsure = `Several models are named ${SHORT}; choose one of ${REPOSITORY}:Q4_K_M, ${REPOSITORY}:Q8_0`
    expect(await lookout(['rm', SHORT])).toMatchObject({ code: 1, stderr: `lookout: ${unsure}\n` })
    expect(await lookout(['rm', `${SHORT}:Q4_K_M`])).toMatchObject({ code: 0 })
    expect(await aliasesOf('Q8_0')).toEqual([`${SHORT}:Q8_0`, SHORT])
    expect(await lookout(['rm', SHORT])).toMatchObject({ code: 0 })
    expect(await readdir(join(home, 'data/models'))).toEqual([])
  })

  test('an alias of the settings keeps its name', async () => {
    expect(await lookout(['pull', `${SHORT}:Q8_0`, '--no-mmproj'])).toMatchObject({ code: 0 })
    const listed = await lookout(['models', '--json'], { LOOKOUT_ALIASES: `${SHORT}=service-mk1.5` })
    expect(listed.stderr).toContain(`the alias '${SHORT}' is left out, because another model has this name`)
    const models: { ids: string[]; aliases: string[]; problem: null }[] = JSON.parse(listed.stdout)
    expect(models.find(({ ids }) => ids.includes('service-mk1.5'))!.aliases).toContain(SHORT)
    expect(models.find(({ ids }) => ids[0]!.startsWith(REPOSITORY))).toMatchObject({
      aliases: [`${SHORT}:Q8_0`],
      problem: null,
    })
  })

  test('an id of the user keeps its name', async () => {
    const own = join(home, 'own.gguf')
    await writeFile(own, model)
    expect(await lookout(['add', own, '--id', SHORT])).toMatchObject({ code: 0 })
    expect(await lookout(['pull', `${SHORT}:Q8_0`, '--no-mmproj', '--id', 'mine'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`mine is ready, also as ${SHORT}:Q8_0, for text only`),
    })
    expect(await problems()).toEqual([null, null, null])
  })

  test('what is known against a model is told: its licence before the download, its faults after it', async () => {
    const { models } = await readCatalogue()
    const known = (matches: (entry: CatalogueEntry) => boolean) => models.find(matches)
    const limited = known(({ licence }) => licence.commercialUse !== 'yes')
    const faulty = known(({ faults }) => faults.length > 0)
    const trained = known(({ prompt }) => prompt !== null)
    const written = (text: string) => text.replaceAll(/\s+/g, ' ')
    for (const entry of new Set([limited, faulty, trained].filter((one) => one !== undefined))) {
      await serveEntry(hub, entry.name, { model, projector })
      const events = eventsOf(await lookout(['pull', entry.name, '--json']))
      const licence = events.findIndex(({ message = '' }) => message.startsWith(`The licence of ${entry.title}`))
      const begun = events.findIndex(({ type }) => type === 'progress')
      expect(licence >= 0 && licence < begun).toBe(entry.licence.commercialUse !== 'yes')
      const text = written((await lookout(['pull', entry.name])).stdout)
      for (const { fault } of entry.faults) expect(text).toContain(written(`Known: ${fault}`))
      if (entry.prompt !== null) expect(text).toContain(written(entry.prompt))
    }
  })
})

describe('what goes wrong is told in one sentence, and nothing is left half written', () => {
  const refused = async (
    args: readonly string[],
    message: RegExp,
    changes: Record<string, string> = {},
    by: typeof lookout = lookout,
  ) => {
    const outcome = await by(args, changes)
    expect(outcome.stderr.trimEnd().split('\n').at(-1)).toMatch(message)
    expect(outcome.code).toBe(1)
    expect(await readdir(home)).not.toContain('data')
    expect(await blobs()).toEqual([])
    return outcome
  }

  test('an unknown repository, and what is no address', async () => {
    const shown =
      /^lookout: 127\.0\.0\.1:\d+ has no acme\/none \(404\): check the name; if it is private, set HF_TOKEN$/
    await refused(['pull', 'acme/none'], shown)
    await refused(
      ['pull', 'not a model'],
      /^lookout: 'not a model' is neither a model of the catalogue nor an address; expected a name that lookout pull lists, /,
    )
  })

  test('a model larger than the memory, unless it is named', async () => {
    const tight = { LOOKOUT_MODEL_MEMORY: '0.01' }
    await refused(
      ['pull', 'acme/nano-GGUF'],
      /:Q4_K_M needs about \d+\.\d MiB of memory, and 10\.2 MiB are available; .* lookout pull acme\/nano-GGUF:Q4_K_M$/,
      tight,
    )
    const named = await lookout(['pull', 'acme/nano-GGUF:Q4_K_M'], tight)
    expect(named).toMatchObject({ code: 0, stderr: expect.stringContaining('it will be slow, or not load') })
  })

  test('an invalid proxy, without its password in the error', async () => {
    const shown = /^lookout: HTTPS_PROXY: expected the address of a proxy, such as http:\/\/host:3128$/
    await refused(['pull', 'acme/nano-GGUF'], shown, { HTTPS_PROXY: 'http://me:secret@host:port' })
    await refused(['pull', 'acme/nano-GGUF'], shown, { HTTPS_PROXY: 'ftp://host' })
  })

  test('an id of the settings, before anything is fetched', async () => {
    const shown = /^lookout: --id: 'service-mk1\.5' is the name of a model of the settings \(.+card\.json\)$/
    for (const args of [
      ['pull', 'acme/nano-GGUF:Q4_K_M'],
      ['add', 'models/lookout-nano/model-f16.gguf'],
    ])
      await refused([...args, '--id', 'service-mk1.5'], shown)
    expect(hub.requests).toEqual([])
  })

  test('bytes that are not those of the hub', async () => {
    hub.onDownload = ({ range }) => (range === `bytes=0-${model.length - 1}` ? { kind: 'wrong' } : undefined)
    await refused(
      ['pull', 'acme/nano-GGUF:Q4_K_M'],
      /^lookout: nano-Q4_K_M\.gguf of acme\/nano-GGUF arrived damaged: .* Run the same command again/,
    )
  })

  test('a gated repository', async () => {
    hub.onAsk = () => ({ kind: 'status', status: 403, headers: { 'x-error-code': 'GatedRepo' } })
    const outcome = await refused(
      ['pull', 'acme/nano-GGUF', '--json'],
      /acme\/nano-GGUF is gated or private \(403\): accept its terms at http.*acme\/nano-GGUF, and set HF_TOKEN/,
      {},
      started,
    )
    expect(eventsOf(outcome)).toEqual([{ type: 'error', message: expect.stringContaining('gated') }])
  })
})

describe('lookout add and rm', () => {
  test('an adapter is taken out of its model’s card', async () => {
    const own = join(home, 'base-Q4_K_M.gguf')
    await writeFile(own, model)
    await lookout(['add', own, '--id', 'base'])
    const card = await cardOf('base')
    const adapters = ['style', 'legal'].map((name) => ({ name, path: join(home, `${name}.gguf`), scale: 0.5 }))
    const serves = [...card.serves, { id: 'lawyer', adapter: 'legal' }]
    await writeFile(
      join(home, 'data/models/base/card.json'),
      JSON.stringify({ ...card, serves, engine: { ...card.engine, adapters } }),
    )
    expect(await lookout(['rm', 'base:nope'])).toMatchObject({
      code: 1,
      stderr: "lookout: base has no adapter 'nope'; it has style, legal\n",
    })
    for (const [id, file] of [
      ['base:style', 'style.gguf'],
      ['lawyer', 'legal.gguf'],
    ] as const) {
      const { stdout } = await lookout(['rm', id])
      expect(stdout).toBe(`Kept ${join(home, file)}: it is the user's own\nRemoved ${id}\n`)
    }
    expect(await cardOf('base')).toEqual(card)
    expect((await lookout(['rm', 'base'])).stdout).toContain('Removed base;')
  })

  test('a file of the user is added and removed, and stays', async () => {
    const own = join(home, 'own-Q4_K_M.gguf')
    const encoder = join(home, 'own-mmproj.gguf')
    await writeFile(own, model)
    await writeFile(encoder, projector)
    expect(await lookout(['add', own, '--mmproj', encoder])).toMatchObject({ code: 0, stderr: '' })
    expect(await cardOf('own-Q4_K_M')).toEqual({
      serves: [{ id: 'own-Q4_K_M' }],
      source: `file:${own}`,
      engine: { model: own, projector: encoder },
    })
    const again = await lookout(['add', own])
    expect(again.stdout).toContain(`Replaced the card of own-Q4_K_M (file:${own})`)
    expect(again.stderr).toContain(
      `own-Q4_K_M is served text only. If it takes images or audio, add --mmproj ${encoder}\n`,
    )
    expect(await lookout(['add', home])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`${home} is a folder: name the GGUF file of the language model in it`),
    })
    expect((await cardOf('own-Q4_K_M')).engine).toEqual({ model: own })
    expect(await lookout(['add', own, '--adapter', encoder])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`${encoder} cannot be used with ${own}: it is no LoRA adapter`),
    })
    expect(await lookout(['add', own, '--adapter', `${encoder}=a b`])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("expected a name of letters, digits, dots and dashes, not 'a b'"),
    })
    expect((await cardOf('own-Q4_K_M')).engine).toEqual({ model: own })
    expect(await lookout(['add', encoder])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is an image encoder'),
    })
    expect(await lookout(['add', 'README.md'])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^lookout: .+README\.md cannot be used: the file is not a GGUF file\.[^\n]+\n$/),
    })
    const unknown = await lookout(['rm', 'nothing'])
    expect(unknown).toMatchObject({
      code: 1,
      stderr: "lookout: No model 'nothing' was pulled or added; there are own-Q4_K_M\n",
    })
    const removed = await lookout(['rm', 'own-Q4_K_M'])
    expect(removed.stdout).toBe(`Kept ${own}: it is the user's own\nRemoved own-Q4_K_M; 0 B freed\n`)
    expect((await lstat(own)).size).toBe(model.length)
  })
})
