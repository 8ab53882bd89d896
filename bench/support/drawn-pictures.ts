import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { UsageError } from './benchmark.ts'

const TRAINING = fileURLToPath(new URL('../../training', import.meta.url))

/**
 * Draws pictures of the shipped model's world, with a command of `training/`.
 * @param python with pillow and numpy; null for the usual one.
 * @throws UsageError where it cannot.
 */
export async function drawPictures(python: string | null, args: readonly string[]): Promise<void> {
  const program = python ?? 'python3'
  const environment = { ...process.env, PYTHONPATH: TRAINING }
  const child = spawn(program, ['-m', 'lookout_training', ...args], { stdio: ['ignore', 2, 2], env: environment })
  const [code] = (await once(child, 'exit').catch(() => [null])) as [number | null]
  if (code !== 0) throw new UsageError(`${program} cannot draw: --python names one with pillow and numpy.`)
}
