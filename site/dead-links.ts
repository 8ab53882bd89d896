import { existsSync } from 'node:fs'
import { glob, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

export interface DeadLink {
  readonly page: string
  readonly link: string
}

/**
 * Every link and address of the built pages that leads to no file, to no anchor, or makes the browser load something from
 * another host.
 */
export async function deadLinks(directory: string): Promise<DeadLink[]> {
  const pages = new Map<string, string>()
  for await (const page of glob('**/*.html', { cwd: directory })) {
    pages.set(page, await readFile(join(directory, page), 'utf8'))
  }
  const anchors = new Map([...pages].map(([page, html]) => [page, anchorsOf(html)]))
  const dead: DeadLink[] = []
  for (const [page, html] of pages) {
    for (const [, tag, address] of html.matchAll(/<(a|link|script|img)\b[^>]*?\s(?:href|src)="([^"]*)"/g)) {
      const link = decodeURI(address!.replaceAll('&amp;', '&'))
      if (/^(?:https?:)?\/\//.test(link)) {
        if (tag !== 'a') dead.push({ page, link })
        continue
      }
      if (/^(?:data|mailto):/.test(link)) continue
      const [path, anchor] = link.split('#')
      const target = fileOf(page, path!)
      const isThere = pages.has(target) || existsSync(join(directory, target))
      const isAnchored = !anchor || (anchors.get(target)?.has(anchor) ?? false)
      if (!isThere || !isAnchored) dead.push({ page, link })
    }
  }
  return dead
}

function anchorsOf(html: string): ReadonlySet<string> {
  return new Set([...html.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id!))
}

function fileOf(page: string, path: string): string {
  if (path === '') return page
  const base = (process.env.SITE_BASE ?? '/').replace(/\/$/, '')
  const inside = path.startsWith('/') ? path.slice(base.length + 1) : join(dirname(page), path)
  return inside === '' || inside.endsWith('/') ? `${inside}index.html` : inside
}
