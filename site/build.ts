/**
 * `npm run docs`: builds the documentation site into `out/site`. Its generator has a package folder of its own (`site/`),
 * so an install of Lookout does not bring it. The build fails when a link or an anchor leads nowhere.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openApiDocument } from '../src/api/openapi.ts'
import { apiPages } from './api-reference.ts'
import { deadLinks } from './dead-links.ts'
import { pagesOf } from './pages.ts'

const SITE = fileURLToPath(new URL('.', import.meta.url))
const ROOT = dirname(SITE.replace(/\/$/, ''))
const PAGES = join(SITE, '.pages')
const OUTPUT = join(ROOT, 'out/site')

await installGenerator()
await gatherPages()
execFileSync('npx', ['vitepress', 'build'], { cwd: SITE, stdio: ['ignore', 'inherit', 'inherit'] })
const dead = await deadLinks(OUTPUT)
if (dead.length > 0) {
  console.error(`Links that lead nowhere:\n${dead.map(({ page, link }) => `  ${page}: ${link}`).join('\n')}`)
  process.exitCode = 1
} else console.log(`The site is in ${OUTPUT}`)

async function installGenerator(): Promise<void> {
  const installed = join(SITE, 'node_modules/.package-lock.json')
  const lock = join(SITE, 'package-lock.json')
  if (existsSync(installed) && (await versions(installed)) === (await versions(lock))) return
  execFileSync('npm', ['ci', '--ignore-scripts'], { cwd: SITE, stdio: 'inherit' })
}

/** The generator's version, which moves with everything that it needs. */
async function versions(lock: string): Promise<string> {
  const { packages } = JSON.parse(await readFile(lock, 'utf8')) as { packages: Record<string, { version?: string }> }
  return ['vitepress', 'mermaid'].map((name) => packages[`node_modules/${name}`]?.version).join(' ')
}

/** Copies the pages to where the generator reads them, in the folders of the repository, so their links hold. */
async function gatherPages(): Promise<void> {
  await rm(PAGES, { recursive: true, force: true })
  const pages = await pagesOf(ROOT)
  for (const page of pages) {
    const text = await readFile(join(ROOT, page), 'utf8')
    await write(page, withoutForeignLinks(text))
  }
  await cp(join(ROOT, 'docs/pictures'), join(PAGES, 'docs/pictures'), { recursive: true })
  await cp(join(ROOT, 'docs/pictures/studio.png'), join(PAGES, 'public/studio.png'))
  await cp(join(ROOT, 'studio/public/icon.svg'), join(PAGES, 'public/icon.svg'))
  await cp(join(SITE, 'index.md'), join(PAGES, 'index.md'))
  for (const [name, text] of apiPages(openApiDocument({ ollama: true }))) await write(name, text)
}

async function write(page: string, text: string): Promise<void> {
  await mkdir(dirname(join(PAGES, page)), { recursive: true })
  await writeFile(join(PAGES, page), text)
}

/** Leaves only the text of links to files of the repository that are no pages. */
function withoutForeignLinks(text: string): string {
  return text.replaceAll(/(?<!!)\[([^\]]+)\]\((?!https?:|#|[^)]*\.md(?:#[^)]*)?\))([^)]+)\)/g, '$1')
}
