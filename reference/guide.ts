import { glob, readFile } from 'node:fs/promises'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Marked } from 'marked'
import type { Plugin } from 'vite'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PAGES = ['docs/**/*.md', 'README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'models/lookout-nano/README.md']

/**
 * Writes the documentation below `guide/` as plain pages, without a script, for readers who have only a running server. The
 * site of `npm run docs` has search and more, and needs a generator that Lookout is not installed with.
 */
export function guide(): Plugin {
  return {
    name: 'guide',
    async generateBundle() {
      const pages = new Map<string, string>()
      for await (const page of glob(PAGES, { cwd: ROOT })) pages.set(page, addressOf(page))
      const pictures = new Set<string>()
      for (const [page, fileName] of pages) {
        const text = await readFile(posix.join(ROOT, page), 'utf8')
        this.emitFile({ type: 'asset', fileName, source: toHtml(page, text, pages, pictures) })
      }
      for (const picture of pictures) {
        this.emitFile({
          type: 'asset',
          fileName: addressOf(picture),
          source: await readFile(posix.join(ROOT, picture)),
        })
      }
      const source = await readFile(new URL('guide.css', import.meta.url))
      this.emitFile({ type: 'asset', fileName: 'guide/guide.css', source })
    },
  }
}

/** Where a file of the repository is served, below the reference. */
function addressOf(path: string): string {
  return posix.join('guide', path.replace(/^docs\//, '').replace(/[.]md$/, '.html'))
}

function toHtml(
  page: string,
  text: string,
  pages: ReadonlyMap<string, string>,
  pictures: { add(path: string): void },
): string {
  const to = (file: string) => posix.relative(posix.dirname(addressOf(page)), addressOf(file))
  const repository = (href: string) => posix.join(posix.dirname(page), href)
  const anchors = new Map<string, number>()
  let title = 'Lookout'
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text: raw }) {
        const inner = this.parser.parseInline(tokens)
        if (depth === 1) title = raw.replaceAll('`', '')
        const name = slug(inner.replace(/<[^>]*>/g, ''))
        const count = anchors.get(name) ?? 0
        anchors.set(name, count + 1)
        return `<h${depth} id="${count === 0 ? name : `${name}-${count}`}">${inner}</h${depth}>\n`
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens)
        if (/^(https?:|#)/.test(href)) return `<a href="${href}">${inner}</a>`
        const [path = '', anchor] = href.split('#')
        const file = [repository(path), posix.join(repository(path), 'index.md')].find((one) => pages.has(one))
        // Other files of the repository are not here.
        if (file === undefined) return inner
        return `<a href="${to(file)}${anchor === undefined ? '' : `#${anchor}`}">${inner}</a>`
      },
      image({ href, text: alt }) {
        const file = repository(href)
        pictures.add(file)
        return `<img src="${to(file)}" alt="${alt}">`
      },
      // What is wide scrolls on its own, also by the keyboard.
      code: ({ text: code }) => `<pre tabindex="0"><code>${escaped(code)}</code></pre>\n`,
      table({ header, rows }) {
        const cell = (tag: string, content: string) => `<${tag}>${content}</${tag}>`
        // A header without a text heads nothing.
        const row = (cells: typeof header, tag: string) =>
          `<tr>${cells.map(({ tokens, text }) => cell(text === '' ? 'td' : tag, this.parser.parseInline(tokens))).join('')}</tr>`
        const body = rows.map((cells) => row(cells, 'td')).join('\n')
        return `<div class="table" tabindex="0"><table>\n<thead>${row(header, 'th')}</thead>\n<tbody>${body}</tbody>\n</table></div>\n`
      },
      // Comments are for tests.
      html: ({ text: html }) => html.replace(/<!--[\s\S]*?-->/g, ''),
    },
  })
  const content = marked.parse(text) as string
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)} · Lookout</title>
<link rel="icon" href="/docs/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/docs/guide/guide.css">
</head>
<body>
<header>
<nav aria-label="Lookout">
<a href="/docs/guide/index.html">All pages</a>
<a href="/docs">API reference</a>
<a href="/studio">Studio</a>
</nav>
</header>
<main>
${content}</main>
</body>
</html>
`
}

/** GitHub's anchors of headings, because the pages are read there too. */
function slug(heading: string): string {
  return heading
    .replace(/&[a-z#0-9]+;/g, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
