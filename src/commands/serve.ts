import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DEMONSTRATION_NOTE, isDemonstration } from '../config/shipped-model.ts'
import { letHeapGrow, releaseMemoryWhenIdle } from '../lib/guarded/memory.ts'
import { writeSecret } from '../lib/secrets/secret-file.ts'
import { Service } from '../service.ts'
import type { Command } from './command.ts'
import { keepServing } from './faults.ts'
import { loadConfig } from './load-config.ts'
import { NO_MODEL } from './models/no-model.ts'
import { readOptions } from './options.ts'
import { SETTINGS_HELP } from './settings-help.ts'

/** In the data directory: the key of a first start without a terminal. */
const FIRST_KEY = 'first-key'

export const serve: Command = {
  help: `Usage: lookout serve [--host ADDRESS] [--port PORT]

  --host ADDRESS  address to listen on, instead of LOOKOUT_HOST; 0.0.0.0 is every address of this machine
  --port PORT     port to listen on, instead of LOOKOUT_PORT

Runs until SIGTERM, SIGINT or SIGHUP; then it stops accepting requests, completes those it has accepted, and exits. A
second SIGTERM or SIGINT stops it at once.

${SETTINGS_HELP}`,
  async run(args) {
    const { host, port } = readOptions(args, { host: { type: 'string' }, port: { type: 'string' } }).values
    const config = await loadConfig({ LOOKOUT_HOST: host, LOOKOUT_PORT: port })
    const stopped = stopSignal()
    const keyFile = join(config.dataDirectory, FIRST_KEY)
    const showsKeys = process.stdout.isTTY
    // Without a terminal, the output ends up in a log.
    const service = await Service.start(config, showsKeys ? {} : { keepFirstKey: (key) => writeSecret(keyFile, key) })
    keepServing(service)
    letHeapGrow()
    releaseMemoryWhenIdle()
    // The reader of the greeting may have closed the pipe before there is more output (`npm start | head`).
    process.stdout.on('error', () => {})
    const key = config.apiKey !== null ? CONFIGURED : describeKey(showsKeys ? service.apiKey : null, keyFile)
    process.stdout.write(await greeting(service, key, showsKeys))
    stopped.whenAsked(async (signal) => {
      process.stdout.write(`${signal}: no new requests; accepted ones have ${config.drainSeconds} s to end\n`)
      await service.close()
      process.exit(0)
    })
  },
}

/** Listens from the beginning: a process that ends while a model is being loaded must end the engine's process too. */
function stopSignal() {
  let stop: ((signal: NodeJS.Signals) => Promise<void>) | null = null
  let asked = false
  let stopping = false
  const fail = (error: unknown) => {
    process.stderr.write(`lookout: ${String(error)}\n`)
    process.exit(1)
  }
  const begin = (signal: NodeJS.Signals) => {
    // At the start there is nothing to wait for.
    if (stop === null) process.exit(1)
    if (!stopping) stop(signal).catch(fail)
    stopping = true
  }
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, (signal) => {
      // Asked a second time, the operator does not want to wait.
      if (asked) process.exit(1)
      asked = true
      begin(signal)
    })
  }
  // A terminal that closes may send it more than once. The first process of a container has no terminal, and the system
  // ignores it there: `docker run` passes on the one of its own terminal.
  if (process.pid !== 1) process.on('SIGHUP', begin)
  // Signals that bin/lookout.cjs passes on. This process may have received the same ones, which are counted separately.
  let passedOn = false
  const passOn = (signal: NodeJS.Signals) => {
    if (passedOn) process.exit(1)
    passedOn = true
    begin(signal)
  }
  process.on('SIGUSR2', () => passOn('SIGTERM'))
  // Another parent may send anything.
  process.on('message', (message) => {
    if (message === 'SIGINT') passOn('SIGINT')
  })
  return {
    whenAsked(action: (signal: NodeJS.Signals) => Promise<void>) {
      stop = action
    },
  }
}

interface ShownKey {
  /** Text about the key in the greeting. */
  readonly about: string
  /** The key, or a variable for it, in a shell command within double quotes. */
  readonly inShell: string
  /** The key itself, if it may be shown. */
  readonly itself: string | null
}

/** A key that the operator set is not written to a terminal or a log. */
const CONFIGURED: ShownKey = { about: 'as set in LOOKOUT_API_KEY', inShell: '$LOOKOUT_API_KEY', itself: null }

/**
 * @param made the key that was just created, if it may be shown; it is shown only now.
 * @param file holds the key of a first start without a terminal, unless the operator has removed it.
 */
function describeKey(made: string | null, file: string): ShownKey {
  if (made !== null) return { about: `${made} (keep it: it is shown only once)`, inShell: made, itself: made }
  if (existsSync(file)) {
    const quoted = `'${file.replaceAll("'", `'\\''`)}'`
    return { about: `in ${file}, which only its owner can read`, inShell: `$(cat ${quoted})`, itself: null }
  }
  return {
    about: 'as made before (`npx lookout keys list` shows which there are, `npx lookout keys create` makes another)',
    inShell: '$LOOKOUT_API_KEY',
    itself: null,
  }
}

async function greeting(
  { url, metricsUrl, studioUrl, studioKey, models }: Service,
  key: ShownKey,
  showsKeys: boolean,
): Promise<string> {
  const served = await models.list()
  const ids = served.map(({ id }) => id)
  const isOnlyDemonstration = ids.length > 0 && served.every(({ card }) => isDemonstration(card))
  const metrics = metricsUrl === null ? '' : `Metrics: ${metricsUrl}\n`
  // The fragment stays in the browser: it is in no request and in no log.
  const linkKey = showsKeys ? (studioKey ?? key.itself) : null
  const link = linkKey === null ? `${studioUrl} (it asks for the key)` : `${studioUrl}#key=${linkKey}`
  const studio = studioUrl === null ? '' : `Open in a browser:\n\n  ${link}\n\n`
  const [model] = ids
  const example =
    model === undefined
      ? `This server has no model: ${NO_MODEL}.\n\n`
      : `${studioUrl === null ? 'T' : 'Or t'}ry it:\n\n${request({ url, model, key: key.inShell, studioUrl })}\n`
  return `Lookout listens on ${url}
${metrics}Models:  ${ids.join(', ') || 'none'}
API key: ${key.about}
${isOnlyDemonstration ? `\n${DEMONSTRATION_NOTE}\n` : ''}
${studio}${example}`
}

/** A command that asks the server, about one of the Studio's samples if there is the Studio. */
function request(about: { url: string; model: string; key: string; studioUrl: string | null }): string {
  const picture = `  {"type": "image_url", "image_url": {"url": "data:image/png;base64,$(curl -s ${about.studioUrl}/samples/shapes.png | base64 | tr -d '\\n')"}},
`
  return `curl -s ${about.url}/v1/chat/completions -H 'Content-Type: application/json' \\
  -H "Authorization: Bearer ${about.key}" -d @- <<JSON
{"model": "${about.model}", "messages": [{"role": "user", "content": [
${about.studioUrl === null ? '' : picture}  {"type": "text", "text": "${about.studioUrl === null ? 'Hello!' : 'Detect all objects.'}"}]}]}
JSON
`
}
