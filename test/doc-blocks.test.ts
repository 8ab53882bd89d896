import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Block, blocksOf, environmentOf, obstacleOf, ReaderFolder, RUN_PAGES } from './support/doc-blocks.ts'
import type { TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

/** Every block of code of these pages runs, in the order of its page. What it prints is checked in `weights/`. */

const blocks = new Map(await Promise.all(RUN_PAGES.map(async (page) => [page, await blocksOf(page)] as const)))

let server: TestServer
let open: TestServer
beforeAll(async () => {
  server = await startShippedServer()
  open = await startShippedServer({ environment: environmentOf('docs/clients.md') })
})
afterAll(async () => {
  await server?.close()
  await open?.close()
})

describe.each([...blocks])('%s', (page, own) => {
  let folder: ReaderFolder
  beforeAll(async () => {
    const own = Object.keys(environmentOf(page)).length > 0 ? open : server
    folder = await ReaderFolder.make(own.url)
  })
  afterAll(() => folder?.[Symbol.asyncDispose]())

  for (const block of own) {
    const obstacle = obstacleOf(block)
    if (obstacle !== null) console.warn(obstacle)
    test.skipIf(obstacle !== null)(titleOf(block), { timeout: 120_000 }, () => folder.run(block))
  }

  test('saves no file that it does not run', () => {
    for (const { file, line } of own) {
      if (file === null) continue
      const runs = own.some((later) => later.line > line && later.code.includes(`npx node ${file}`))
      expect(runs, `${file} of ${page}:${line} is run by a later block`).toBe(true)
    }
  })

  test('has its blocks found', async () => {
    const fences = (await readFile(page, 'utf8')).match(/^```(?:sh|python|ts)\b/gm)?.length ?? 0
    const skipped = (await readFile(page, 'utf8')).match(/^<!-- not run: .+ -->$/gm)?.length ?? 0
    expect(own).toHaveLength(fences - skipped)
  })
})

function titleOf({ line, language, file }: Block): string {
  return file === null ? `${language} at line ${line} runs` : `${language} at line ${line} is saved as ${file}`
}
