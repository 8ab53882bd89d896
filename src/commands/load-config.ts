import { type Config, readConfig } from '../config/config.ts'
import { readConfigFile } from '../config/config-file.ts'
import { unknownSettings } from '../config/unknown-settings.ts'

/**
 * The settings of this process: the environment's, and below them the configuration file's. Warns of variables that look
 * like settings but are not.
 * @throws ConfigError
 */
export async function loadConfig(): Promise<Config> {
  for (const problem of unknownSettings(process.env)) process.stderr.write(`lookout: ${problem}\n`)
  return readConfig(process.env, await readConfigFile(process.env, process.cwd()))
}
