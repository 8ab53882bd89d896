import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  type Block,
  blocksOf,
  hasOutput,
  obstacleOf,
  type Printed,
  ReaderFolder,
  ROBOT_MINUTE,
  RUN_PAGES,
} from './support/doc-blocks.ts'
import { createTestDatabase } from './support/services.ts'

/**
 * The blocks of code of pages that do not say what they print run, in the order of their page, and so does a minute of the
 * robot's. Those of the other pages run in `weights/`, where what they print is checked too.
 */

const blocks = new Map(await Promise.all(RUN_PAGES.map(async (page) => [page, await blocksOf(page)] as const)))

describe.each([...blocks])('%s', (page, own) => {
  const minute = own.find(({ code }) => code === ROBOT_MINUTE)
  const run = hasOutput(own) ? own.filter((block) => block === minute || (minute && block.file !== null)) : own
  describe.runIf(run.length > 0)('its blocks', () => {
    let folder: ReaderFolder
    const printed = new Map<Block, Printed>()
    beforeAll(async () => {
      folder = await ReaderFolder.make(page)
    })
    afterAll(() => folder?.[Symbol.asyncDispose]())

    for (const block of run) {
      const obstacle = obstacleOf(block)
      if (obstacle !== null) console.warn(obstacle)
      test.skipIf(obstacle !== null)(titleOf(block), { timeout: 600_000 }, async () => {
        printed.set(block, await folder.run(block))
      })
    }

    test.runIf(page.endsWith('/search.md'))('an archive is searched, the nearest first', () => {
      const lines = printed.get(own.at(-1)!)!.stdout.trimEnd().split('\n')
      expect(lines).toHaveLength(3)
      for (const line of lines) expect(line).toMatch(/^-?\d\.\d\d docs\/pictures\/\S+\.png \S/)
      const alike = lines.map((line) => Number.parseFloat(line))
      expect(alike).toEqual(alike.toSorted((a, b) => b - a))
    })

    test.runIf(page.endsWith('/search.md'))('the archive is searched in PostgreSQL, too', async ({ skip }) => {
      const [, sql] = /^```sql\n(.*?)^```$/ms.exec(await readFile(page, 'utf8'))!
      const pictures = new DatabaseSync(join(folder.path, 'archive.db')).prepare('select * from pictures').all()
      const rows = pictures.map(({ file, words, vector }) => {
        const { buffer, byteOffset, length } = vector as Uint8Array
        return { file, words, vector: [...new Float32Array(buffer, byteOffset, length / 4)] }
      })
      const postgres = await createTestDatabase()
      if (postgres === null) return skip('PostgreSQL is not running')
      onTestFinished(() => postgres.drop())
      const client = new pg.Client({ connectionString: postgres.url })
      await client.connect()
      onTestFinished(() => client.end())
      const extension = await client.query("select 1 from pg_available_extensions where name = 'vector'")
      if (extension.rowCount === 0) return skip('PostgreSQL has no pgvector')
      // The model that stands for the guide's has shorter vectors.
      const statements = sql!.replace('1024', String(rows[0]!.vector.length)).trim().split(';\n')
      const [insert, select] = statements.splice(-2)
      for (const statement of statements) await client.query(statement)
      for (const { file, words, vector } of rows) await client.query(insert!, [file, words, JSON.stringify(vector)])
      const [first] = rows
      const found = await client.query(select!, [JSON.stringify(first!.vector)])
      const nearest = rows
        .map(({ file, words, vector }) => ({ file, words, alike: dot(first!.vector, vector) }))
        .toSorted((one, other) => other.alike - one.alike)
        .slice(0, 3)
      expect(found.rows).toEqual(nearest.map((row) => ({ ...row, alike: expect.closeTo(row.alike, 5) })))
    })

    test.runIf(page.endsWith('/robot.md'))('a robot that looks five times a second is never told to wait', () => {
      const { stdout, stderr } = printed.get(minute!)!
      expect(stderr).toMatch(/^300 frames in \d+\.\d s: \d\.\d a second$/m)
      const lines = stdout.trimEnd().split('\n')
      expect(lines).toHaveLength(300)
      expect(lines.filter((line) => !/^pixel \d+, \d+: reach for |^too late: hold still$/.test(line))).toEqual([])
    })
  })

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

const dot = (one: readonly number[], other: readonly number[]) =>
  one.reduce((sum, value, at) => sum + value * other[at]!, 0)

function titleOf({ line, language, file }: Block): string {
  return file === null ? `${language} at line ${line} runs` : `${language} at line ${line} is saved as ${file}`
}
