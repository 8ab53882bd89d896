import { copyFile, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
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
import { removeFromPrefixFolder } from '../prefix-folders.ts'
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
  readonly prefixCacheBytes?: number
  readonly card?: LocalModelCard
}

async function start(options: StartOptions = {}): Promise<LocalEngine> {
  const { folder = directory, limitBytes = 64 * MIB, keepsAll = true, prefixCacheBytes = null } = options
  const engine = await LocalEngine.start(options.card ?? card, {
    seed: 1,
    threads: 1,
    prefixCacheBytes,
    prefixDisk: { directory: folder, limitBytes, keepsAll },
  })
  engines.push(engine)
  return engine
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

test('after a restart, or a crash, the next turn of a chat computes only what is new', async () => {
  const fresh = await start({ prefixCacheBytes: 0 })
  const reply = await ask(fresh, firstTurn(1))
  const expected = await ask(fresh, secondTurn(1, reply.text))

  let engine = await start()
  expect(await ask(engine, firstTurn(1))).toEqual(reply)
  await engine.close()
  engine = await start()
  const next = await ask(engine, secondTurn(1, reply.text))
  expect(next.text).toBe(expected.text)
  expect(next.cached).toBeGreaterThan(IMAGE_TOKENS)
  expect(await engine.stats()).toMatchObject({ diskHits: 1, prefixHits: 1, prefixMisses: 0 })
  // Other organisations find none of it, although they send the same prompt.
  expect(await ask(engine, secondTurn(1, reply.text), 'other')).toEqual({ text: expected.text, cached: 0 })

  // The second turn continues the first one, which is on disk already.
  await hasWritten(engine, 3)
  const { pid } = engine
  process.kill(pid!, 'SIGKILL')
  await until(() => engine.state === 'ready' && engine.pid !== pid)
  const again = await ask(engine, secondTurn(1, reply.text))
  expect(again.text).toBe(expected.text)
  expect(again.cached).toBeGreaterThan(next.cached)

  const modes = await Promise.all(
    (await readdir(directory, { recursive: true })).map(
      async (name) => (await stat(join(directory, name))).mode & 0o777,
    ),
  )
  expect(new Set(modes)).toEqual(new Set([0o600, 0o700]))
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

test('damaged files are ignored, and never change a reply', async () => {
  const organisations = Array.from({ length: 12 }, (_, index) => `organisation-${index}`)
  let engine = await start()
  const { text } = await ask(engine, firstTurn(1), organisations[0])
  const expected = await ask(engine, secondTurn(1, text), organisations[0])
  for (const organisation of organisations.slice(1)) await ask(engine, firstTurn(1), organisation)
  await engine.close()
  const damage = fc.record({
    kind: fc.constantFrom('cut', 'change', 'zero', 'extend', 'swap', 'empty'),
    at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    by: fc.integer({ min: 1, max: 255 }),
  })
  const files = await pieces()
  expect(files.length).toBeGreaterThanOrEqual(organisations.length)
  for (const [index, { kind, at, by }] of fc.sample(damage, files.length).entries()) {
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
  engine = await start()
  const { pid } = engine
  for (const organisation of organisations) {
    expect((await ask(engine, secondTurn(1, text), organisation)).text).toBe(expected.text)
  }
  expect(engine.pid).toBe(pid)
})

test('the limit holds for several engines too, and the most recently used files stay', async () => {
  const probe = await start()
  await ask(probe, firstTurn(0))
  await probe.close()
  // Room for three conversations, and for their distinct parts.
  const added = newPieces()
  await added()
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
  await Promise.all(both.map((engine) => engine.close()))
  expect(await bytesOnDisk()).toBeLessThanOrEqual(limitBytes)
  const engine = await start({ limitBytes })
  expect((await ask(engine, firstTurn(6))).cached).toBeGreaterThan(IMAGE_TOKENS)
  expect((await ask(engine, firstTurn(0))).cached).toBe(0)
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

test('removed prefixes of an organisation are not written again', async () => {
  const engine = await start()
  await ask(engine, firstTurn(1), 'gone')
  await ask(engine, firstTurn(1), 'other')
  await hasWritten(engine, 2)
  await removeFromPrefixFolder(directory, 'gone')
  await ask(engine, firstTurn(2), 'gone')
  await ask(engine, firstTurn(2), 'other')
  await until(async () => (await pieces()).filter((path) => path.endsWith('.prefix')).length === 2)
  await engine.close()
  const again = await start()
  expect((await ask(again, firstTurn(1), 'gone')).cached).toBe(0)
  expect((await ask(again, firstTurn(2), 'gone')).cached).toBe(0)
  expect((await ask(again, firstTurn(2), 'other')).cached).toBeGreaterThan(IMAGE_TOKENS)
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
