import { glob } from 'node:fs/promises'

/** Pages of the repository that stand outside `docs/`. */
const OTHERS = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'training/README.md', 'models/lookout-nano/README.md']

/** The pages of the site, as paths in the repository. */
export async function pagesOf(root: string): Promise<string[]> {
  const pages = [...OTHERS]
  for await (const page of glob('docs/**/*.md', { cwd: root })) pages.push(page)
  return pages.sort()
}
