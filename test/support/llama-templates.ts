import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDirectory, LLAMA_RELEASE } from '../../src/setup/native-library.mjs'
import { fetchSource } from '../../src/setup/source.mjs'

const PROJECT_ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const FOLDER = 'models/templates'

/**
 * The chat templates that llama.cpp tests with, by file name, from the source that set-up fetches. They are fetched once for
 * each release.
 */
export async function llamaTemplates(): Promise<ReadonlyMap<string, string>> {
  const folder = join(cacheDirectory(), 'tests', `templates-${LLAMA_RELEASE}`)
  if (!existsSync(folder)) await fetchInto(folder)
  const names = readdirSync(folder).filter((name) => name.endsWith('.jinja'))
  return new Map(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}

async function fetchInto(folder: string): Promise<void> {
  await mkdir(dirname(folder), { recursive: true })
  const workspace = await mkdtemp(join(dirname(folder), 'templates-'))
  try {
    const source = await fetchSource(workspace, PROJECT_ROOT, [FOLDER])
    await rename(join(source, FOLDER), folder).catch((error: NodeJS.ErrnoException) => {
      // Another test was first.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
}
