import { execFile } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDirectory } from '../../src/setup/native-library.mjs'

const run = promisify(execFile)
const PACKAGES = ['openapi-python-client==0.29.1', 'openapi-generator-cli==7.26.0']

/**
 * The folder of the commands of generators for Python, with a Python that has what their clients need: of the Python that
 * `LOOKOUT_TEST_OPENAPI_PYTHON` names, or of one that is kept in the cache folder, where they are installed once (40 MB).
 * @returns null, after a line that says why, where they cannot be installed.
 */
export async function generatorCommands(): Promise<string | null> {
  const python = process.env.LOOKOUT_TEST_OPENAPI_PYTHON
  if (python !== undefined) return dirname(python)
  const folder = join(cacheDirectory(), 'openapi-generators')
  const done = join(folder, 'lookout-installed')
  const bin = join(folder, 'bin')
  if ((await readFile(done, 'utf8').catch(() => '')) === PACKAGES.join()) return bin
  try {
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { recursive: true })
    await run('python3', ['-m', 'venv', folder])
    await run(join(bin, 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PACKAGES])
    await writeFile(done, PACKAGES.join())
    return bin
  } catch (error) {
    const reason = (error as Error).message.trim().split('\n').at(-1)
    console.warn(`SKIPPED: clients from openapi.json in Python and Go need ${PACKAGES.join(' and ')}: ${reason}`)
    return null
  }
}

/** Whether a command can be run. Where it cannot, a line says what is missing. */
export async function hasCommand(command: string, args: readonly string[], what: string): Promise<boolean> {
  try {
    await run(command, args)
    return true
  } catch {
    console.warn(`SKIPPED: ${what} needs ${command}`)
    return false
  }
}
