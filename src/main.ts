import { parseArgs } from 'node:util'
import { ConfigError, readConfig } from './config/config.ts'
import { Service, version } from './service.ts'

const HELP = `Lookout: a self-hosted inference server for vision-language models.

Usage: node src/main.ts [serve] [--help] [--version]

Settings come from the environment:
  LOOKOUT_HOST         address to listen on (127.0.0.1)
  LOOKOUT_PORT         port to listen on, 0 for any (8080)
  LOOKOUT_API_KEY      key that clients must send (made on the first start and kept in the data directory)
  LOOKOUT_DATA_DIR     where the server keeps its data (the platform's place for application data)
  LOOKOUT_MODEL_CARD   card of the model to serve (the one that is shipped)
  LOOKOUT_MEDIA_HOSTS  private hosts that pictures may be fetched from, parted by commas (none)
  LOOKOUT_RATE_LIMITS  on or off (on)
  LOOKOUT_LOG_LEVEL    fatal, error, warn, info, debug, trace or silent (info)
`

async function main(): Promise<void> {
  const { values, positionals } = parseCommand()
  if (values.help) {
    process.stdout.write(HELP)
  } else if (values.version) {
    process.stdout.write(`${await version()}\n`)
  } else if (positionals.length === 0 || (positionals.length === 1 && positionals[0] === 'serve')) {
    await serve()
  } else {
    throw new ConfigError(`unknown command '${positionals.join(' ')}'; see --help`)
  }
}

function parseCommand() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: { help: { type: 'boolean', short: 'h' }, version: { type: 'boolean', short: 'v' } },
    })
  } catch (error) {
    throw new ConfigError(`${(error as Error).message}; see --help`)
  }
}

async function serve(): Promise<void> {
  const config = readConfig(process.env)
  const service = await Service.start(config)
  // Whoever read the greeting may be gone by the time there is more to say (`npm start | head`).
  process.stdout.on('error', () => {})
  process.stdout.write(greeting(service, config.apiKey === null))

  let closing = false
  const close = async (signal: NodeJS.Signals) => {
    // Asked a second time, the operator does not want to wait.
    if (closing) process.exit(1)
    closing = true
    process.stdout.write(`${signal}: closing\n`)
    await service.close()
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, (name) => void close(name).catch(fail))
}

/** A key that the operator set is not written to a terminal or a log; one that the server made has to be told. */
function greeting({ url, apiKey, models }: Service, madeHere: boolean): string {
  const model = models.list()[0]!.id
  return `Lookout listens on ${url}
Models:  ${models
    .list()
    .map(({ id }) => id)
    .join(', ')}
API key: ${madeHere ? apiKey : 'as set in LOOKOUT_API_KEY'}

Try it from the repository's folder:

curl -s ${url}/v1/chat/completions -H 'Content-Type: application/json' \\
  -H "Authorization: Bearer ${madeHere ? apiKey : '$LOOKOUT_API_KEY'}" -d @- <<JSON
{"model": "${model}", "messages": [{"role": "user", "content": [
  {"type": "image_url", "image_url": {"url": "data:image/png;base64,$(base64 < docs/pictures/shapes.png | tr -d '\\n')"}},
  {"type": "text", "text": "What is in this picture?"}]}]}
JSON

`
}

function fail(error: unknown): never {
  process.stderr.write(`lookout: ${describe(error)}\n`)
  process.exit(1)
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('code' in error && error.code === 'EADDRINUSE' && 'port' in error) {
    return `port ${error.port} is in use; set LOOKOUT_PORT to another one, or to 0 for any`
  }
  if ('code' in error && error.code === 'EADDRNOTAVAIL') return 'LOOKOUT_HOST is not an address of this machine'
  return error.message
}

await main().catch(fail)
