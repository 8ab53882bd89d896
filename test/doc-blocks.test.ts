import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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

function titleOf({ line, language, file }: Block): string {
  return file === null ? `${language} at line ${line} runs` : `${language} at line ${line} is saved as ${file}`
}
