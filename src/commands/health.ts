import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { localUrl } from '../config/config.ts'
import type { Command } from './command.ts'
import { loadConfig } from './load-config.ts'
import { readOptions } from './options.ts'
import { SETTINGS_HELP } from './settings-help.ts'

const ANSWER_MS = 8_000

export const health: Command = {
  help: `Usage: lookout health

Asks the server at LOOKOUT_HOST and LOOKOUT_PORT whether it accepts requests (GET /readyz). Exits with code 1 if it does
not, or if it does not answer within ${ANSWER_MS / 1000} s. The container image's HEALTHCHECK runs this command.

${SETTINGS_HELP}`,
  async run(args) {
    readOptions(args, {})
    const url = `${localUrl(await loadConfig())}/readyz`
    // `fetch` refuses some ports on which a server may listen.
    const request = get(url, { signal: AbortSignal.timeout(ANSWER_MS), agent: false })
    const [response]: IncomingMessage[] = await once(request, 'response').catch((error: NodeJS.ErrnoException) => {
      const { message } = error.cause instanceof Error ? error.cause : error
      throw new Error(`no answer from ${url}: ${message || error.code}`)
    })
    request.destroy()
    if (response!.statusCode !== 200) throw new Error(`${url} answered ${response!.statusCode}`)
    process.stdout.write(`${url} is ready\n`)
  },
}
