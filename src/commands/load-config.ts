import { type Config, readConfig } from '../config/config.ts'
import { readConfigFile } from '../config/config-file.ts'
import { unknownSettings } from '../config/unknown-settings.ts'

/**
 * The settings of this process: the environment's, and below them the configuration file's. Warns of variables that look
 * like settings.
 * @throws ConfigError
 */
export async function loadConfig(): Promise<Config> {
  for (const problem of unknownSettings(process.env)) process.stderr.write(`lookout: ${problem}\n`)
  const { settings, origins } = await readConfigFile(process.env, process.cwd())
  return readConfig(process.env, { settings, origins })
}
