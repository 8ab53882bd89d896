import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { glob, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { readCatalogue } from '../src/catalogue/catalogue.ts'
import { REQUESTS_PER_MINUTE } from '../src/config/rate-limits.ts'

const run = promisify(execFile)
const pages = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'training/README.md', 'models/lookout-nano/README.md']
for await (const page of glob('docs/**/*.md')) pages.push(page)

const texts = new Map(await Promise.all(pages.map(async (page) => [page, await readFile(page, 'utf8')] as const)))
const folders = new Set<string>()
for await (const { name, parentPath } of glob('{src,test,training,bench}/**', { withFileTypes: true })) {
  folders.add(name).add(basename(parentPath))
}

/** All matches of the pattern's first group. */
const found = (text: string, pattern: RegExp) => [...new Set([...text.matchAll(pattern)].map(([, match]) => match!))]

const helps = new Map<string, Promise<{ readonly stdout: string }>>()

/** What `lookout COMMAND --help` prints. */
async function helpOf(command: string): Promise<string> {
  if (!helps.has(command)) helps.set(command, run(process.execPath, ['src/main.ts', command, '--help']))
  return (await helps.get(command)!).stdout
}

/** GitHub's anchors of a page's headings. */
function anchorsOf(text: string): string[] {
  return found(text, /^#+ (.+)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

/** Paths in code, relative to the repository, to `src` or to the page; what `npm run demo` writes is no part of it. */
function missingPaths(page: string, text: string): string[] {
  const anywhere = found(
    text,
    /(?<![\w./@-])((?:bench|docs|models|scripts|src|test|training)\/[\w.-][\w./-]*)(?![\w./*$-])/g,
  )
  const inCode = found(
    text,
    /`((?:\.\.\/)*[\w.-]+\/(?:[\w.-]+\/)*|[\w.-]+(?:\/[\w.-]+)*\/[\w.-]+\.(?:[cm]?ts|mjs|cpp|py|md|json|png|jinja))`/g,
  )
  return [...anywhere, ...inCode]
    .map((path) => path.replace(/[.,]$/, ''))
    .filter((path) => !path.startsWith('out/'))
    .filter((path) => !['.', 'src', dirname(page)].some((base) => existsSync(join(base, path))))
    .filter((path) => !(/^[\w-]+\/$/.test(path) && folders.has(path.slice(0, -1))))
}

describe.each(pages)('%s', (page) => {
  const text = texts.get(page)!

  test('names files and folders that exist', () => {
    expect(missingPaths(page, text)).toEqual([])
  })

  test('links to pages and headings that exist', () => {
    // Code may look like a link, such as a notation in Markdown.
    const links = found(text.replace(/`[^`\n]*`/g, ''), /\]\((?!https?:)([^)\s]+)\)/g)
    const dead = links.filter((link) => {
      const [path, anchor] = link.split('#')
      const target = path === '' ? page : join(dirname(page), path!)
      if (!existsSync(target)) return true
      return anchor !== undefined && !anchorsOf(texts.get(target) ?? '').includes(anchor)
    })
    expect(dead).toEqual([])
  })

  test('names scripts and benchmarks that exist', async () => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> }
    expect(found(text, /npm run ([\w-]+)/g).filter((name) => scripts[name] === undefined)).toEqual([])
    const benchmarks = found(text, /npm run bench -- ([a-z][\w-]*)/g)
    expect(benchmarks.filter((name) => !existsSync(`bench/${name}.ts`))).toEqual([])
  })

  test('names commands, actions and options that exist', async () => {
    const lines = found(text, /\b(lookout [a-z][a-z-]*(?: [\w<>.,=/-]+)*)/g)
    for (const line of lines) {
      const [, command, action] = /^lookout ([\w-]+)(?: ([a-z]+)\b(?![/.-]))?/.exec(line)!
      const help = await helpOf(command!)
      expect(help).toContain(action === undefined ? `lookout ${command}` : `lookout ${command} ${action}`)
      for (const option of found(line, /(--[a-z-]+)/g)) expect(help, line).toContain(option)
    }
  })
})

/** Words, without the lines of tables. */
const wordsOf = (text: string) => text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length

/** More is not read. Pages for contributors and the API reference do not count. */
const MOST_WORDS = 49_500

test(`pages for users have at most ${MOST_WORDS} words`, () => {
  const lengths = pages
    .filter((page) => page === 'README.md' || (page.startsWith('docs/') && !page.startsWith('docs/contributing/')))
    .map((page) => ({ page, words: wordsOf(texts.get(page)!) }))
    .sort((one, other) => other.words - one.words)
  const words = lengths.reduce((sum, { words }) => sum + words, 0)
  const longest = lengths.map(({ page, words }) => `${words} ${page}`).join('\n')
  expect(words, longest).toBeLessThanOrEqual(MOST_WORDS)
})

test('README.md is at most 120 lines', () => {
  expect(texts.get('README.md')!.trimEnd().split('\n').length).toBeLessThanOrEqual(120)
})

test('every page for users is in docs/index.md, every one for contributors in docs/contributing/index.md', () => {
  for (const index of ['docs/index.md', 'docs/contributing/index.md']) {
    const folder = dirname(index)
    const listed = found(texts.get(index)!, /\]\(([^)#]+)\)/g).map((link) => join(folder, link))
    const own = pages.filter((page) => dirname(page) === folder && page !== index)
    expect(own.filter((page) => !listed.includes(page))).toEqual([])
  }
})

test('docs/limits.md has the rate limits of every class', () => {
  const [, section = ''] = texts.get('docs/limits.md')!.split('\n## Requests\n')
  const rows = section.matchAll(/^\| (`\w+`(?:, `\w+`)*) \| (\d+(?:, \d+)*) \|/gm)
  const listed = [...rows].flatMap(([, classes, limits]) => {
    const numbers = limits!.split(', ').map(Number)
    return found(classes!, /`(\w+)`/g).map((name, index) => [name, numbers.length === 1 ? numbers[0] : numbers[index]])
  })
  expect(Object.fromEntries(listed)).toEqual(REQUESTS_PER_MINUTE)
})

test('models that pages tell to pull are in the catalogue', async () => {
  const { models } = await readCatalogue()
  const names = models.map(({ name }) => name)
  const told = pages.flatMap((page) =>
    found(texts.get(page)!, /(?:^ {4}|`)(?:npx )?lookout pull ([a-z][\w.-]*)(?::\w+)?(?:`| +#|$)/gm),
  )
  expect(told).toContain('qwen3-vl-4b')
  expect(told.filter((name) => !names.includes(name))).toEqual([])
})
