import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FixedApiKeys, keptApiKey, newApiKey } from './api-keys.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-keys-'))
})
afterEach(() => rm(directory, { recursive: true }))

test('a key belongs to its organisation, and no other key to any', async () => {
  const keys = new FixedApiKeys([
    { key: 'one', organisation: 'a' },
    { key: 'two', organisation: 'b' },
  ])
  expect(await keys.authenticate('one')).toEqual({ organisation: 'a' })
  expect(await keys.authenticate('two')).toEqual({ organisation: 'b' })
  expect(await keys.authenticate('three')).toBeNull()
  expect(await keys.authenticate('')).toBeNull()
})

test('new keys have one form and never repeat', () => {
  const keys = new Set(Array.from({ length: 200 }, newApiKey))
  expect(keys.size).toBe(200)
  for (const key of keys) expect(key).toMatch(/^lk-[0-9A-Za-z]{43}$/)
})

test('the kept key survives restarts and is readable by its owner only', async () => {
  const home = join(directory, 'not', 'there', 'yet')
  const first = await keptApiKey(home)
  expect(await keptApiKey(home)).toBe(first)
  expect((await stat(join(home, 'api-key'))).mode & 0o777).toBe(0o600)
  expect(await readdir(home)).toEqual(['api-key'])
})

test('servers that start together agree on one key', async () => {
  const keys = await Promise.all(Array.from({ length: 8 }, () => keptApiKey(directory)))
  expect(new Set(keys).size).toBe(1)
})

test('a damaged key file is named', async () => {
  await writeFile(join(directory, 'api-key'), 'lk-short')
  await expect(keptApiKey(directory)).rejects.toThrow(join(directory, 'api-key'))
})
