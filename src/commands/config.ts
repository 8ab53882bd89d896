import { type Config, ConfigError } from '../config/config.ts'
import { cacheDirectory } from '../setup/native-library.mjs'
import type { Command } from './command.ts'
import { loadConfig } from './load-config.ts'
import { readKnownCards } from './models/known-models.ts'
import { readOptions } from './options.ts'
import { SETTINGS_HELP } from './settings-help.ts'

export const config: Command = {
  help: `Usage: lookout config check [--json]

Reads the settings and the model cards, starts nothing, and prints the settings that a server would use. Passwords are
left out.

  --json  a JSON object instead of text

${SETTINGS_HELP}`,
  async run([action, ...args]) {
    if (action !== 'check') throw new ConfigError('expected config check; see lookout config --help')
    const { values } = readOptions(args, { json: { type: 'boolean' } })
    const settings = await loadConfig()
    await readKnownCards(settings)
    await checkTracing(settings)
    if (values.json) {
      process.stdout.write(`${JSON.stringify(shown(settings), null, 2)}\n`)
      return
    }
    const lines = Object.entries(shown(settings)).map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    process.stdout.write(`${lines.join('\n')}\nThe configuration is fine\n`)
  },
}

function shown(settings: Config): Record<string, unknown> {
  return {
    ...settings,
    cacheDirectory: settings.cacheDirectory ?? cacheDirectory(),
    apiKey: settings.apiKey === null ? null : HIDDEN,
    secret: settings.secret === null ? null : HIDDEN,
    cameras: settings.cameras.map(({ url, username, password, ...camera }) => {
      const login = password === null ? { username: username && HIDDEN, password } : { username, password: HIDDEN }
      return { ...camera, url: withoutSecrets(url), ...login }
    }),
    databaseUrl: settings.databaseUrl && withoutSecrets(settings.databaseUrl),
    redisUrl: settings.redisUrl && withoutSecrets(settings.redisUrl),
    blobs: withoutSecrets(settings.blobs),
    tracing: settings.tracing && Object.fromEntries(Object.entries(settings.tracing).map(shownVariable)),
  }
}

const HIDDEN = '***'
/** Query parameters of an address that hold no secret. */
const OPEN: ReadonlySet<string> = new Set(['endpoint', 'region', 'young', 'sslmode'])

/**
 * An address without anything that could be a password: in the login, in the query, or in a path, such as for cameras
 * that expect `/user=admin&password=...` or `/admin:...`. A folder is returned unchanged.
 */
function withoutSecrets(address: string): string {
  if (!URL.canParse(address)) return address
  const url = new URL(address)
  if (url.password !== '') url.password = HIDDEN
  // The user name may be a token, except for databases.
  if (url.username !== '' && !/^(postgres(ql)?|rediss?):$/.test(url.protocol)) url.username = HIDDEN
  url.pathname = url.pathname.replace(/([=:]|%3[ad])[^/&;]*/gi, `$1${HIDDEN}`)
  const query = [...url.searchParams].map(([name, value]) => {
    return value === '' ? HIDDEN : `${name}=${OPEN.has(name) ? withoutSecrets(value) : HIDDEN}`
  })
  url.search = query.join('&')
  return url.href
}

function shownVariable([name, value]: [string, string]): [string, string] {
  return [name, name.endsWith('_HEADERS') ? HIDDEN : withoutSecrets(value)]
}

/** Checks settings of which a server only warns, and then does not trace. */
async function checkTracing({ tracing }: Config): Promise<void> {
  if (tracing === null) return
  const { readExporter, readSampler } = await import('../tracing/otlp-settings.ts')
  readExporter(tracing)
  readSampler(tracing)
}
