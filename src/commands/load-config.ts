import { type Config, readConfig } from '../config/config.ts'
import { readConfigFile } from '../config/config-file.ts'

/** The settings of this process: the environment's, and below them the configuration file's. @throws ConfigError */
export async function loadConfig(): Promise<Config> {
  const { settings, origins } = await readConfigFile(process.env, process.cwd())
  return readConfig(process.env, { settings, origins })
}
