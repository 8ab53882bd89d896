// Downloads tarballs of npm packages of the pinned release. Plain JavaScript: set-up may run on an older Node.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { PACKAGE_RELEASE, SetupError } from './native-library.mjs'
import { isInstalled, run } from './run.mjs'

/**
 * @param {readonly string[]} names
 * @throws SetupError that says how to install a program that is missing.
 */
export async function needPrograms(...names) {
  for (const name of names) {
    if (!(await isInstalled(name))) {
      throw new SetupError(
        `"${name}" is not installed. Install it (Debian, Ubuntu: apt-get install ${name}) and try again.`,
      )
    }
  }
}

/**
 * Downloads a package's tarball with npm and returns its path.
 * @param {{ name: string, integrity: string, contains: string }} spec
 * @param {string} folder the destination, which must contain no other tarball.
 * @param {string} projectRoot where npm runs, so that the project's .npmrc (registry, proxy) applies.
 * @throws SetupError when npm cannot fetch it, or when it is not the file with this integrity.
 */
export async function fetchTarball({ name, integrity, contains }, folder, projectRoot) {
  const spec = `${name}@${PACKAGE_RELEASE}`
  const args = ['pack', spec, '--pack-destination', folder, '--ignore-scripts', '--prefer-offline', '--loglevel=error']
  const npm = process.env.npm_execpath
  try {
    // Use the npm that runs this script; without one, the npm on PATH.
    if (npm !== undefined && basename(npm) === 'npm-cli.js') {
      await run(process.execPath, [npm, ...args], { cwd: projectRoot })
    } else await run('npm', args, { cwd: projectRoot })
  } catch (error) {
    throw new SetupError(
      `npm cannot fetch ${spec}, which contains ${contains}. Check the network and npm's registry setting, and try again.\n${error.message}`,
    )
  }
  const file = (await readdir(folder)).find((other) => other.endsWith('.tgz'))
  if (file === undefined) throw new SetupError(`npm fetched ${spec} but left no tarball.`)
  const tarball = join(folder, file)
  const found = await integrityOf(tarball)
  if (found !== integrity) {
    throw new SetupError(
      `The tarball of ${spec} is not the expected file (${found} instead of ${integrity}). Clear npm's cache ("npm cache clean --force") and check the registry.`,
    )
  }
  return tarball
}

async function integrityOf(file) {
  const hash = createHash('sha512')
  await pipeline(createReadStream(file), hash)
  return `sha512-${hash.digest('base64')}`
}
