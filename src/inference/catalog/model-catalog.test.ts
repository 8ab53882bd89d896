import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { ModelCard } from '../../models/card.ts'
import { findStoredCards } from '../../models/stored-cards.ts'
import { EnginePool } from '../pool/engine-pool.ts'
import { ModelCatalog } from './model-catalog.ts'
import { ModelRegistry } from './registry.ts'

async function watching(directory: string) {
  const list = vi.fn(findStoredCards)
  const warn = vi.fn()
  const logger = { info() {}, warn, error() {} }
  const opener = {
    start: () => Promise.reject(),
    describe: () => Promise.reject(),
    servable: (card: ModelCard) => card,
  }
  const pool = new EnginePool({ memoryLimitBytes: null, logger })
  const registry = new ModelRegistry()
  const models = { registry, pool, opener, aliases: {}, memoryBytes: 1, prepare() {} }
  const stored = new ModelCatalog({ directory, ...models, logger, list })
  onTestFinished(() => stored.close())
  return { stored, list, warn }
}

/** After a second the store is listed in any case. */
function timeStands(): void {
  vi.spyOn(performance, 'now').mockReturnValue(performance.now())
}

test('requests for unknown models do not have an unchanged store listed again and again', async () => {
  timeStands()
  const directory = await mkdtemp(join(tmpdir(), 'lookout-store-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  await utimes(directory, 1, 1)
  const { stored, list } = await watching(directory)
  await Promise.all(Array.from({ length: 100 }, () => stored.look()))
  for (let i = 0; i < 100; i++) await stored.look()
  expect(list).toHaveBeenCalledOnce()
  await utimes(directory, 2, 2)
  await stored.look()
  expect(list).toHaveBeenCalledTimes(2)
})

test('a card that comes after its folder is seen at once', async () => {
  timeStands()
  const directory = await mkdtemp(join(tmpdir(), 'lookout-store-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const folder = join(directory, 'a')
  await mkdir(folder)
  for (const path of [folder, directory]) await utimes(path, 1, 1)
  const { stored, list, warn } = await watching(directory)
  for (let i = 0; i < 100; i++) await stored.look()
  expect(list).toHaveBeenCalledTimes(2)
  await writeFile(join(folder, 'card.json'), '{')
  await stored.look()
  expect(warn.mock.calls).toEqual([[expect.stringContaining('not valid JSON')]])
})

test('a store that cannot be read is reported once', async () => {
  const { stored, warn } = await watching(import.meta.filename)
  for (let i = 0; i < 5; i++) await stored.look()
  expect(warn.mock.calls).toEqual([[expect.stringContaining('Cannot read the model store: ENOTDIR')]])
})
