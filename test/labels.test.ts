import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { pythonWith, skipped } from './support/python.ts'
import { KEY, startTestServer, type TestServer } from './support/server.ts'

/** The tools that labels are for, unchanged, read what the command line has written. */
const TOOLS = {
  pycocotools: ['coco'],
  supervision: ['coco', 'yolo'],
  datumaro: ['coco'],
  fiftyone: ['coco', 'yolo'],
  label_studio_converter: ['coco', 'flat'],
  ultralytics: ['yolo'],
} as const

/** By file, with the boxes of each; folders have pictures with the same names. */
const FOUND = {
  'a/1.png': [['cat', 20, 20, 100, 80]],
  'a/é 2.png': [],
  'b/1.png': [['cat', 40, 60, 200, 240]],
  // Upright: EXIF turns it.
  'b/deep/1.jpg': [['cat', 50, 200, 250, 800]],
}
const FLAT = { '1.png': FOUND['b/1.png'] }

const pythons = Object.keys(TOOLS).map((tool) => [tool, pythonWith(tool)] as const)
for (const [tool, python] of pythons) if (python === null) console.warn(skipped(`the test with ${tool}`, tool))

describe.skipIf(pythons.every(([, python]) => python === null))('labels', () => {
  let server: TestServer
  let directory: string
  beforeAll(async () => {
    directory = await realpath(await mkdtemp(join(tmpdir(), 'lookout-labels-')))
    server = await startTestServer()
    let searches = 0
    server.engine.script = {
      branch: ({ suffix }) => {
        const question = suffix.map((part) => (part.type === 'text' ? part.text : '')).join('')
        if (!question.includes('cat')) return { texts: [''] }
        // The second of the four pictures has none.
        const isEmpty = searches++ % 4 === 1
        return { texts: [isEmpty ? '' : '<point_box mention="cat"> (100,200) (500,800) </point_box>'] }
      },
    }
    await mkdir(join(directory, 'photos/b/deep'), { recursive: true })
    await mkdir(join(directory, 'photos/a'))
    const names = Object.keys(FOUND).map((name) => join(directory, 'photos', name))
    const [first, second, third, fourth] = names as [string, string, string, string]
    const grey = (width: number, height: number) =>
      sharp({ create: { width, height, channels: 3, background: '#808080' } })
    await grey(200, 100).toFile(first)
    await grey(200, 100).toFile(second)
    await grey(400, 300).toFile(third)
    await grey(1000, 500).withMetadata({ orientation: 6 }).toFile(fourth)
    const run = async (files: readonly string[], ...output: string[]) => {
      const words = ['detect', ...files, 'dog,cat', '--format', ...output]
      const outcome = await outcomeOf(startLookout(words, { LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY }))
      expect(outcome).toMatchObject({ code: 0, stderr: '' })
    }
    await run(names, 'coco', '-o', join(directory, 'coco.json'))
    await run(names, 'yolo', '-o', join(directory, 'yolo/'))
    await run([third], 'yolo', '-o', join(directory, 'flat/'))
  })
  afterAll(async () => {
    await server?.close()
    await rm(directory, { recursive: true, force: true })
  })

  const there = pythons.flatMap(([tool, python]) => (python === null ? [] : [[tool, python] as const]))
  test.each(there)('%s reads them', { timeout: 300_000 }, async (tool, python) => {
    const script = fileURLToPath(new URL('support/label_readers.py', import.meta.url))
    const { stdout } = await promisify(execFile)(python, [script, tool, directory])
    const read = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, Record<string, unknown[]>>
    // Some tools give the boxes of a picture in another order.
    const sorted = (found: Record<string, readonly unknown[]>) =>
      Object.fromEntries(Object.entries(found).map(([name, boxes]) => [name, [...boxes].map(String).sort()]))
    const formats = TOOLS[tool as keyof typeof TOOLS]
    expect(Object.keys(read)).toEqual(formats)
    for (const format of formats) expect(sorted(read[format]!)).toEqual(sorted(format === 'flat' ? FLAT : FOUND))
  })
})
