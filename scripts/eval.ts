/**
 * Evaluates the shipped model over HTTP: starts a server and runs the evaluation of `training/` against it, which uses
 * images and phrasings that the model was never trained on and prints a table.
 *
 * Usage: npm run eval [-- --pictures 500 --json out/eval.json]
 * Needs Python 3 with pillow and numpy, and the fonts that training/README.md lists. PYTHON selects the interpreter.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { newApiKey } from '../src/accounts/index.ts'
import { readConfig } from '../src/config/config.ts'
import { Service } from '../src/service.ts'

const python = process.env.PYTHON ?? 'python3'
const apiKey = newApiKey()
const training = fileURLToPath(new URL('../training', import.meta.url))

async function evaluate(service: Service): Promise<number> {
  const server = ['--base-url', service.url, '--api-key', apiKey]
  const child = spawn(python, ['-m', 'lookout_training', 'evaluate', ...server, ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: { ...process.env, PYTHONPATH: training },
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  return code ?? 1
}

const environment = {
  ...process.env,
  LOOKOUT_PORT: '0',
  LOOKOUT_API_KEY: apiKey,
  LOOKOUT_LOG_LEVEL: 'warn',
  LOOKOUT_RATE_LIMITS: 'off',
}
const service = await Service.start(readConfig(environment))
try {
  process.exitCode = await evaluate(service)
} catch (error) {
  process.stderr.write(`Cannot start ${python}: ${(error as Error).message}\n`)
  process.exitCode = 1
} finally {
  await service.close()
}
