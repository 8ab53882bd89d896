import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { blocksOf, hasOutput, obstacleOf, ReaderFolder, ROBOT_MINUTE, RUN_PAGES } from '../support/doc-blocks.ts'

/** The blocks of pages that say what they print run, and print that with the shipped model. */

const pages = await Promise.all(RUN_PAGES.map(async (page) => [page, await blocksOf(page)] as const))
const withOutput = pages.filter(([, blocks]) => hasOutput(blocks))
/** Their blocks ask one thing each, and read nothing that another has written: they share a folder and its server. */
const REQUESTS = ['README.md', 'docs/chat.md', 'docs/responses.md', 'docs/messages.md']
const folders = Map.groupBy(withOutput, ([page]) => (REQUESTS.includes(page) ? REQUESTS.join(', ') : page))

describe.each([...folders])('%s', (_, [first, ...others]) => {
  let folder: ReaderFolder
  beforeAll(async () => {
    folder = await ReaderFolder.make(first![0])
  })
  afterAll(() => folder?.[Symbol.asyncDispose]())

  // Blocks without output may write what later ones read.
  for (const block of [first!, ...others].flatMap(([, blocks]) => blocks)) {
    if (block.code === ROBOT_MINUTE) continue
    const title = `${block.language} at ${block.page}:${block.line} prints what the page says`
    const obstacle = obstacleOf(block)
    if (obstacle !== null) console.warn(obstacle)
    test.skipIf(obstacle !== null)(title, { timeout: 600_000 }, async () => {
      const { stdout } = await folder.run(block)
      if (block.output === null) return
      const { words, numbers } = comparable(stdout)
      const promised = comparable(block.output)
      expect(words).toBe(promised.words)
      const far = numbers.filter((number, index) => !isNear(promised.numbers[index]!, number))
      expect(far, stdout).toEqual([])
    })
  }
})

/** Words, and numbers apart: a coordinate's last digit depends on the processor. */
function comparable(text: string): { words: string; numbers: number[] } {
  const number = /\d+(?:\.\d+)?/g
  return {
    words: text.trim().replaceAll(number, '0'),
    numbers: [...text.matchAll(number)].map(([digits]) => Number(digits)),
  }
}

/** Small whole numbers are counts. Coordinates may differ by 8, and shares by what one box of twenty makes. */
function isNear(one: number, other: number): boolean {
  if (!Number.isInteger(one)) return Math.abs(one - other) <= 0.06
  return one < 10 ? one === other : Math.abs(one - other) <= 8
}
