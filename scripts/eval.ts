/**
 * Evaluates the shipped model over HTTP: starts a server and runs the evaluation of `training/` against it, which uses
 * images and phrasings that the model was never trained on and prints a table.
 *
 * Usage: npm run eval [-- --pictures 500 --json out/eval.json]
 *        npm run eval -- decisions [--pictures 150 --shifted 150 --fit 150]
 *        npm run eval -- detect [--pictures 60 --fit 200]
 * Needs Python 3 with pillow and numpy, and the fonts that training/README.md lists. PYTHON selects the interpreter.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { newApiKey } from '../src/accounts/api-key.ts'
import { readConfig } from '../src/config/config.ts'
import { Service } from '../src/service.ts'
import { evaluateDecisions } from './eval-decisions.ts'
import { evaluateDetection } from './eval-detect.ts'

const python = process.env.PYTHON ?? 'python3'
const apiKey = newApiKey()
const training = fileURLToPath(new URL('../training', import.meta.url))

/** Runs a command of `training/`. @returns its exit code. */
async function train(args: readonly string[]): Promise<number> {
  const child = spawn(python, ['-m', 'lookout_training', ...args], {
    stdio: 'inherit',
    env: { ...process.env, PYTHONPATH: training },
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  return code ?? 1
}

async function evaluate(service: Service): Promise<number> {
  const [first, ...others] = process.argv.slice(2)
  const part = { url: service.url, key: apiKey, args: others, train }
  if (first === 'decisions') return evaluateDecisions(part)
  if (first === 'detect') return evaluateDetection(part)
  return train(['evaluate', '--base-url', service.url, '--api-key', apiKey, ...process.argv.slice(2)])
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
  const { message, code } = error as NodeJS.ErrnoException
  process.stderr.write(code === 'ENOENT' ? `Cannot start ${python}: ${message}\n` : `${message}\n`)
  process.exitCode = 1
} finally {
  await service.close()
}
