// Fetches the source of llama.cpp, which includes libmtmd. It is a git bundle in the tarball of an npm package.
import { createHash } from 'node:crypto'
import { readdir, readFile, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { PACKAGE_RELEASE, SetupError, SOURCE_INTEGRITY, SOURCE_PACKAGE } from './native-library.mjs'
import { isInstalled, run } from './run.mjs'

const BUNDLE = 'package/llama/gitRelease.bundle'

/**
 * Puts the named folders of the source tree into `<workspace>/source` and returns that path.
 * @param projectRoot where npm runs, so that the project's .npmrc (registry, proxy) applies.
 */
export async function fetchSource(workspace, projectRoot, folders) {
  for (const tool of ['git', 'tar']) {
    if (!(await isInstalled(tool))) {
      throw new SetupError(
        `"${tool}" is not installed. Install it (Debian, Ubuntu: apt-get install ${tool}) and try again.`,
      )
    }
  }
  const tarball = await downloadTarball(workspace, projectRoot)
  await run('tar', ['-xzf', tarball, '-C', workspace, BUNDLE])
  const source = join(workspace, 'source')
  const env = withoutGitVariables()
  await run('git', ['clone', '--quiet', '--no-checkout', join(workspace, BUNDLE), source], { env })
  await run('git', ['-C', source, 'checkout', '--quiet', 'HEAD', '--', ...folders], { env })
  await rm(join(workspace, 'package'), { recursive: true, force: true })
  await rm(tarball, { force: true })
  return source
}

async function downloadTarball(workspace, projectRoot) {
  const spec = `${SOURCE_PACKAGE}@${PACKAGE_RELEASE}`
  const args = [
    'pack',
    spec,
    '--pack-destination',
    workspace,
    '--ignore-scripts',
    '--prefer-offline',
    '--loglevel=error',
  ]
  const npm = process.env.npm_execpath
  try {
    // Use the npm that runs this script; without one, the npm on PATH.
    if (npm !== undefined && basename(npm) === 'npm-cli.js') {
      await run(process.execPath, [npm, ...args], { cwd: projectRoot })
    } else await run('npm', args, { cwd: projectRoot })
  } catch (error) {
    throw new SetupError(
      `npm cannot fetch ${spec}, which contains the source of llama.cpp. Check the network and npm's registry setting, and try again.\n${error.message}`,
    )
  }
  const file = (await readdir(workspace)).find((name) => name.endsWith('.tgz'))
  if (file === undefined) throw new SetupError(`npm fetched ${spec} but left no tarball.`)
  const tarball = join(workspace, file)
  const integrity = `sha512-${createHash('sha512')
    .update(await readFile(tarball))
    .digest('base64')}`
  if (integrity !== SOURCE_INTEGRITY) {
    throw new SetupError(
      `The tarball of ${spec} is not the expected file (${integrity} instead of ${SOURCE_INTEGRITY}). Clear npm's cache ("npm cache clean --force") and check the registry.`,
    )
  }
  return tarball
}

/** In a git hook, variables such as GIT_DIR point to another repository. */
function withoutGitVariables() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_')))
}
