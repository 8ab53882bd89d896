import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type KeyMedia, PrefixKey } from '../cache/prefix-key.ts'
import type { EngineSettings } from '../protocol.ts'
import { fingerprint } from './fingerprint.ts'
import { hashState, nameOf, type PieceHead, readHead, writeHead } from './piece-file.ts'
import { PieceStore } from './piece-store.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-pieces-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

async function openStore(options: { fingerprint?: string; limitBytes?: number } = {}): Promise<PieceStore> {
  const store = new PieceStore({ directory, limitBytes: 2 ** 20, model: 'model', fingerprint: 'these', ...options })
  await store.open()
  return store
}

const media: KeyMedia[] = [{ at: 3, cells: 5, positions: 2, key: '0 hash' }]
const symbols = Int32Array.from({ length: 20 }, (_, i) => i - 4)
const state = Uint8Array.from({ length: 300 }, (_, i) => i)

async function pieceOf(bytes: Uint8Array): Promise<{ name: string; head: PieceHead }> {
  const span = { from: { cells: 0, position: 0 }, to: { cells: 20, position: 17 }, onlyCut: null }
  const about = { ...span, parent: null, symbols, media, costMs: 5, stateBytes: bytes.length }
  const head = { ...about, fingerprint: 'these', stateHash: await hashState(bytes) }
  return { name: nameOf(PrefixKey.continued(null, symbols, media), span, null), head }
}

async function onlyFile(): Promise<string> {
  const entries = await readdir(directory, { recursive: true })
  return join(directory, entries.find((name) => name.endsWith('.prefix'))!)
}

test('reads a head as it was written', () => {
  const cut = fc.record({ cells: fc.nat(1000), position: fc.nat(1000) })
  const head = fc.record({
    fingerprint: fc.string(),
    parent: fc.option(fc.string()),
    from: cut,
    onlyCut: fc.option(fc.nat()),
    symbols: fc.array(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), { maxLength: 40 }),
    media: fc.array(fc.record({ at: fc.nat(99), cells: fc.nat(99), positions: fc.nat(99), key: fc.string() })),
    costMs: fc.nat(),
    stateBytes: fc.nat(),
    stateHash: fc.string(),
  })
  fc.assert(
    fc.property(head, (fields) => {
      const to = { cells: fields.from.cells + fields.symbols.length, position: 7 }
      const given = { ...fields, to, symbols: Int32Array.from(fields.symbols) }
      expect(readHead(writeHead(given))).toEqual(given)
    }),
  )
})

test('detects any change of a file, and removes a changed file', async () => {
  const store = await openStore()
  const { name, head } = await pieceOf(state)
  await store.write('a', name, head, state)
  const path = await onlyFile()
  const whole = await readFile(path)
  const known = (await store.readHead('a', name))!
  expect(known).toMatchObject(head)
  expect(await store.readState('a', name, known)).toEqual(Buffer.from(state))
  const change = fc.oneof(
    fc.record({ at: fc.nat(whole.length - 1), by: fc.integer({ min: 1, max: 255 }) }),
    fc.record({ length: fc.nat(whole.length - 1) }),
    fc.record({ more: fc.uint8Array({ minLength: 1, maxLength: 9 }) }),
  )
  await fc.assert(
    fc.asyncProperty(change, async (how) => {
      const bytes = Buffer.from(whole)
      if ('at' in how) bytes[how.at]! ^= how.by
      const changed = 'length' in how ? bytes.subarray(0, how.length) : bytes
      await writeFile(path, 'more' in how ? Buffer.concat([changed, how.more]) : changed)
      const found = await store.readHead('a', name)
      expect(found === null ? null : await store.readState('a', name, found)).toBeNull()
      await expect(readFile(path)).rejects.toThrow('ENOENT')
      // One that was found before it was changed.
      await writeFile(path, changed)
      if ('more' in how) await rm(path)
      expect(await store.readState('a', name, known)).toBeNull()
    }),
  )
})

test('removes files of another fingerprint and does not find them', async () => {
  const { name, head } = await pieceOf(state)
  await (await openStore()).write('a', name, head, state)
  const other = await openStore({ fingerprint: 'others' })
  expect((await other.list('a', null))?.names).toEqual([])
  expect(other.usage).toEqual({ bytes: 0, files: 0 })
  expect((await (await openStore()).list('a', null))?.names).toEqual([])
})

test('removes the least recently used files of the organisation with most bytes', async () => {
  const one = await pieceOf(state)
  const store = await openStore({ limitBytes: 5.5 * (writeHead(one.head).length + state.length) })
  const add = (organisation: string, name: string) => store.write(organisation, name, one.head, state)
  const namesOf = async (organisation: string) => (await store.list(organisation, null))!.names.sort()
  for (const name of ['a1', 'a2', 'a3']) await add('a', name)
  await add('b', 'b1')
  await store.touch('a', ['a3', 'a2', 'a1'])
  for (const name of ['b2', 'b3']) await add('b', name)
  expect([await namesOf('a'), await namesOf('b')]).toEqual([
    ['a1', 'a2'],
    ['b1', 'b2', 'b3'],
  ])
  expect(await store.write('a', 'large', one.head, new Uint8Array(2 ** 20))).toBeNull()
  expect((await namesOf('a')).length).toBe(2)
})

test('a fingerprint depends on numerics, modification times, and every setting that is not listed as irrelevant', async () => {
  const weights = join(directory, 'weights')
  await writeFile(weights, 'weights')
  await utimes(weights, 1e9, 1e9)
  const settings = { model: weights, projector: null, cells: 100, image: null, threads: 1, seed: 1 } as EngineSettings
  const of = (changes: object = {}, numerics = 'fp_1') =>
    fingerprint({ ...settings, ...changes }, { fingerprint: numerics })
  const before = of()
  expect(of({ threads: 2, seed: 2, maxWaiting: 3, printedTokens: ['a'] })).toBe(before)
  expect(of({ cells: 101 })).not.toBe(before)
  expect(of({ kvType: 'q8_0' })).not.toBe(before)
  expect(of({}, 'fp_2')).not.toBe(before)
  await utimes(weights, 1e9, 1e9 + 1)
  expect(of()).not.toBe(before)
})
