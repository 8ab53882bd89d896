import { localUrl } from '../config/config.ts'
import type { Command } from './command.ts'
import { loadConfig } from './load-config.ts'
import { readOptions } from './options.ts'
import { SETTINGS_HELP } from './settings-help.ts'

const ANSWER_MS = 8_000

export const health: Command = {
  help: `Usage: lookout health

Asks the server at LOOKOUT_HOST and LOOKOUT_PORT whether it accepts requests (GET /readyz). Exits with code 1 if it does
not, or does not answer within ${ANSWER_MS / 1000} s. The image's HEALTHCHECK runs this.

${SETTINGS_HELP}`,
  async run(args) {
    readOptions(args, {})
    const url = `${localUrl(await loadConfig())}/readyz`
    const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS) }).catch((error: Error) => {
      throw new Error(`no answer from ${url}: ${error.cause instanceof Error ? error.cause.message : error.message}`)
    })
    if (!response.ok) throw new Error(`${url} answered ${response.status}`)
    process.stdout.write(`${url} is ready\n`)
  },
}
