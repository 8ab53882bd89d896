import { type Config, type Environment, readConfig } from '../config/config.ts'
import { readConfigFile } from '../config/read-config-file.ts'
import { quotedSettings, unknownSettings } from '../config/unknown-settings.ts'

/**
 * The settings of this process, from the environment and, with lower precedence, the configuration file. Warns of
 * variables that look like settings but are not, and of values in quotes.
 * @param options settings that the command line names, as variables. They win.
 * @throws ConfigError
 */
export async function loadConfig(options: Environment = {}): Promise<Config> {
  for (const problem of [...unknownSettings(process.env), ...quotedSettings(process.env)])
    process.stderr.write(`lookout: ${problem}\n`)
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  return readConfig({ ...process.env, ...Object.fromEntries(given) }, await readConfigFile(process.env, process.cwd()))
}
