import { copyFile, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  assistant,
  branch,
  CARD,
  collect,
  generate,
  picture,
  trusted,
  until,
  untrusted,
} from '../../../../test/support/local-engine.ts'
import { fill, mountSmallDisk, unmount } from '../../../../test/support/small-disk.ts'
import { type LocalModelCard, loadLocalCard } from '../../../models/card.ts'
import { openPrefixFolder, organisationFolder, removeFromPrefixFolder } from '../prefix-folders.ts'
import { LocalEngine } from './local-engine.ts'

/** The prefix cache on disk, through engines that end and start again. */

const MIB = 2 ** 20

let directory: string
let card: LocalModelCard
let engines: LocalEngine[] = []

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-prefixes-'))
  card = await loadLocalCard(CARD)
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  engines = []
  await rm(directory, { recursive: true, force: true })
})

interface StartOptions {
  readonly folder?: string
  readonly limitBytes?: number
  /** Prefixes of the shipped model are rarely worth storing. */
  readonly keepsAll?: boolean
  readonly card?: LocalModelCard
}

async function start({ folder = directory, ...options }: StartOptions = {}): Promise<LocalEngine> {
  const engine = await startIn(folder, options)
  engines.push(engine)
  return engine
}

async function startIn(folder: string, options: Omit<StartOptions, 'folder'> = {}): Promise<LocalEngine> {
  const { limitBytes = 64 * MIB, keepsAll = true } = options
  return LocalEngine.start(options.card ?? (await loadLocalCard(CARD)), {
    seed: 1,
    threads: 1,
    prefixDisk: { directory: folder, limitBytes, keepsAll },
  })
}

/** A question about an image of 64 tokens. */
const firstTurn = (image: number) => [
  trusted('<|im_start|>user\n'),
  picture(256, 256, image),
  untrusted('What is here?'),
  trusted('<|im_end|>\n'),
  assistant,
]
const secondTurn = (image: number, reply: string) => [
  ...firstTurn(image),
  untrusted(reply),
  trusted('<|im_end|>\n<|im_start|>user\n'),
  untrusted('Where is it?'),
  trusted('<|im_end|>\n'),
  assistant,
]
const IMAGE_TOKENS = 64

async function ask(engine: LocalEngine, parts: ReturnType<typeof firstTurn>, organisation = 'test') {
  const generation = await generate(engine, parts, [branch({ maxTokens: 12 })], { organisation })
  const { texts } = await collect(generation)
  return { text: texts['0.0']!, cached: generation.prompts[0]!.cachedTokens }
}

const hasWritten = (engine: LocalEngine, files: number) =>
  until(async () => (await engine.stats()).diskSequences >= files)

/** Pieces on disk, in order of their paths. */
async function pieces(folder = directory): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && entry.name !== 'secret')
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort()
}

async function bytesOnDisk(): Promise<number> {
  const sizes = await Promise.all((await pieces()).map(async (path) => (await stat(path).catch(() => null))?.size ?? 0))
  return sizes.reduce((sum, size) => sum + size, 0)
}

describe('after a restart', () => {
  const organisations = Array.from({ length: 12 }, (_, index) => `organisation-${index}`)
  let folder: string
  let engine: LocalEngine
  let reply: string
  /** The reply to the second turn, computed without a prefix. */
  let expected: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lookout-prefixes-'))
    engine = await startIn(folder)
    reply = (await ask(engine, firstTurn(1))).text
    for (const organisation of [...organisations, 'gone', 'stays']) await ask(engine, firstTurn(1), organisation)
    const second = await ask(engine, secondTurn(1, reply), 'stranger')
    expect(second.cached).toBe(0)
    expected = second.text
    await hasWritten(engine, organisations.length + 4)
    await removeFromPrefixFolder(folder, 'gone')
    await ask(engine, firstTurn(2), 'gone')
    await ask(engine, firstTurn(2), 'stays')
    await until(async () => (await piecesOf('stays')).length === 2)
    await engine.close()
    await damage((await Promise.all(organisations.map(piecesOf))).flat())
    engine = await startIn(folder)
  })
  afterAll(async () => {
    await engine?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** None where the organisation has no folder. */
  const piecesOf = async (organisation: string) => {
    const own = join(folder, organisationFolder(await openPrefixFolder(folder), organisation))
    return (await pieces(own).catch(() => [])).filter((path) => path.endsWith('.prefix'))
  }

  test('the next turn of a chat computes only what is new', async () => {
    const { diskHits, prefixHits, prefixMisses } = await engine.stats()
    const next = await ask(engine, secondTurn(1, reply))
    expect(next.text).toBe(expected)
    expect(next.cached).toBeGreaterThan(IMAGE_TOKENS)
    expect(await engine.stats()).toMatchObject({ diskHits: diskHits + 1, prefixHits: prefixHits + 1, prefixMisses })
    // Other organisations find none of it, although they send the same prompt.
    expect(await ask(engine, secondTurn(1, reply), 'other')).toEqual({ text: expected, cached: 0 })
    // Drafts may get their names meanwhile.
    const found = await Promise.all(
      (await readdir(folder, { recursive: true })).map((name) => stat(join(folder, name)).catch(() => null)),
    )
    const modes = found.flatMap((file) => (file === null ? [] : [file.mode & 0o777]))
    expect(new Set(modes)).toEqual(new Set([0o600, 0o700]))
  })

  test('damaged files are ignored, and never change a reply', async () => {
    const { pid } = engine
    for (const organisation of organisations) {
      expect((await ask(engine, secondTurn(1, reply), organisation)).text).toBe(expected)
    }
    expect(engine.pid).toBe(pid)
  })

  test('removed prefixes of an organisation are not written again', async () => {
    expect(await piecesOf('gone')).toEqual([])
    expect((await ask(engine, firstTurn(1), 'gone')).cached).toBe(0)
    expect((await ask(engine, firstTurn(2), 'gone')).cached).toBe(0)
    expect((await ask(engine, firstTurn(2), 'stays')).cached).toBeGreaterThan(IMAGE_TOKENS)
  })

  test('that follows a crash, what was written before it is found', async () => {
    const first = await ask(engine, firstTurn(3), 'crashed')
    await until(async () => (await piecesOf('crashed')).length > 0)
    const { pid } = engine
    process.kill(pid!, 'SIGKILL')
    await until(() => engine.state === 'ready' && engine.pid !== pid)
    const again = await ask(engine, firstTurn(3), 'crashed')
    expect(again.text).toBe(first.text)
    expect(again.cached).toBeGreaterThan(IMAGE_TOKENS)
  })
})

test('other weights find nothing, and the files of the earlier ones are removed', async () => {
  const folder = await mkdtemp(join(directory, 'weights-'))
  const model = join(folder, basename(card.engine.model))
  await copyFile(join(card.directory, card.engine.model), model)
  const own = { ...card, engine: { ...card.engine, model } }
  const disk = join(directory, 'prefixes')
  let engine = await start({ card: own, folder: disk })
  await ask(engine, firstTurn(1))
  await engine.close()
  const [before] = await pieces(disk)
  expect(before).toBeDefined()
  await utimes(model, new Date(), new Date(1e9))
  engine = await start({ card: own, folder: disk })
  expect((await ask(engine, firstTurn(1))).cached).toBe(0)
  await hasWritten(engine, 1)
  const after = await pieces(disk)
  expect(after).toHaveLength(1)
  expect(after).not.toContain(before)
})

const damages = fc.record({
  kind: fc.constantFrom('cut', 'change', 'zero', 'extend', 'swap', 'empty'),
  at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  by: fc.integer({ min: 1, max: 255 }),
})

async function damage(files: readonly string[]): Promise<void> {
  for (const [index, { kind, at, by }] of fc.sample(damages, files.length).entries()) {
    const path = files[index]!
    const bytes = await readFile(path)
    const place = Math.floor(at * bytes.length)
    if (kind === 'change') bytes[place]! ^= by
    if (kind === 'zero') bytes.fill(0, place)
    const other = files[(index + by) % files.length]!
    const changed = {
      cut: bytes.subarray(0, place),
      change: bytes,
      zero: bytes,
      extend: Buffer.concat([bytes, bytes.subarray(place)]),
      swap: await readFile(other),
      empty: Buffer.alloc(0),
    }[kind]
    await writeFile(path, changed)
  }
}

test('the limit holds for several engines too, and the most recently used files stay', async () => {
  const added = newPieces()
  const keeper = await start()
  await ask(keeper, firstTurn(0))
  await keeper.close()
  await added()
  // Room for three conversations, and for their distinct parts.
  const limitBytes = Math.round(3.5 * (await bytesOnDisk()))
  const both = [await start({ limitBytes }), await start({ limitBytes })]
  for (let image = 1; image <= 6; image++) {
    const engine = both[image % 2]!
    const { prefixMisses } = await engine.stats()
    await ask(engine, firstTurn(image))
    expect((await engine.stats()).prefixMisses).toBe(prefixMisses + 1)
    await until(async () => (await added()) !== null)
    expect(await bytesOnDisk()).toBeLessThanOrEqual(limitBytes)
  }
  // Each engine finds the files of the other.
  expect((await ask(both[1]!, firstTurn(6))).cached).toBeGreaterThan(IMAGE_TOKENS)
  expect((await ask(both[1]!, firstTurn(0))).cached).toBe(0)
  await Promise.all(both.map((engine) => engine.close()))
  expect(await bytesOnDisk()).toBeLessThanOrEqual(limitBytes)
})

/** @returns what finds a piece that was not there when it last found one. */
function newPieces(): () => Promise<string | null> {
  let seen = new Set<string>()
  return async () => {
    const now = await pieces()
    const added = now.find((path) => !seen.has(path) && path.endsWith('.prefix'))
    if (added !== undefined) seen = new Set(now)
    return added ?? null
  }
}

test('prefixes that are quick to compute are not written', async () => {
  const engine = await start({ keepsAll: false })
  await ask(engine, [trusted('<|im_start|>user\n'), untrusted('What is a circle? '.repeat(20)), assistant])
  await until(async () => (await engine.stats()).cachedSequences > 0)
  await engine.close()
  expect(await pieces()).toEqual([])
})

const mounted = await mountSmallDisk()
const title = mounted ? 'on a full disk' : 'on a full disk (skipped: mounting one requires root on Linux)'
test.skipIf(mounted === null)(`${title}, requests are answered, and later prefixes are stored`, async () => {
  const folder = join(mounted!, 'prefixes')
  const engine = await start({ folder })
  try {
    const { text } = await ask(engine, firstTurn(1))
    await hasWritten(engine, 1)
    await fill(join(mounted!, 'junk'))
    expect((await ask(engine, firstTurn(2))).text).not.toBe('')
    await until(async () => (await engine.stats()).cachedSequences > 1)
    await rm(join(mounted!, 'junk'))
    await ask(engine, firstTurn(3))
    await hasWritten(engine, 2)
    await engine.close()
    const again = await start({ folder })
    expect(await ask(again, firstTurn(1))).toMatchObject({ text, cached: expect.any(Number) })
    expect((await ask(again, firstTurn(3))).cached).toBeGreaterThan(IMAGE_TOKENS)
    await again.close()
  } finally {
    await unmount(mounted!)
  }
})
