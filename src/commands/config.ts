import { type Config, ConfigError } from '../config/config.ts'
import { cacheDirectory } from '../setup/native-library.mjs'
import type { Command } from './command.ts'
import { loadConfig } from './load-config.ts'
import { readKnownCards } from './models/known-models.ts'
import { readOptions } from './options.ts'
import { SETTINGS_HELP } from './settings-help.ts'

export const config: Command = {
  help: `Usage: lookout config check [--json]

Reads the settings and the model cards, starts nothing, and prints what a server would run with. Passwords are left out.

  --json  a JSON object instead of text

${SETTINGS_HELP}`,
  async run([action, ...args]) {
    if (action !== 'check') throw new ConfigError('expected config check; see lookout config --help')
    const { values } = readOptions(args, { json: { type: 'boolean' } })
    const settings = await loadConfig()
    await readKnownCards(settings)
    if (values.json) {
      process.stdout.write(`${JSON.stringify(shown(settings), null, 2)}\n`)
      return
    }
    const lines = Object.entries(shown(settings)).map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    process.stdout.write(`${lines.join('\n')}\nThe configuration is fine\n`)
  },
}

function shown(settings: Config): Record<string, unknown> {
  const withoutPassword = (address: string | null) => {
    if (address === null) return null
    const url = new URL(address)
    if (url.password !== '') url.password = '***'
    return url.href
  }
  return {
    ...settings,
    cacheDirectory: settings.cacheDirectory ?? cacheDirectory(),
    apiKey: settings.apiKey === null ? null : '***',
    secret: settings.secret === null ? null : '***',
    cameras: settings.cameras.map((camera) => ({ ...camera, password: camera.password === null ? null : '***' })),
    databaseUrl: withoutPassword(settings.databaseUrl),
    redisUrl: withoutPassword(settings.redisUrl),
  }
}
