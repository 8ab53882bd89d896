import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError, type Environment, type FileSettings } from './config.ts'

const FILE = 'lookout.config.yaml'

/**
 * The settings of `LOOKOUT_CONFIG`, or of `lookout.config.yaml` in the working directory where there is one.
 * @throws ConfigError that names the file and the line.
 */
export async function readConfigFile(environment: Environment, directory: string): Promise<FileSettings> {
  const named = environment.LOOKOUT_CONFIG
  const path = named || join(directory, FILE)
  try {
    const text = await readFile(path, 'utf8')
    // Loaded where there is a file: the parser of YAML takes 3 MiB.
    const { parseConfigFile } = await import('./config-file.ts')
    return parseConfigFile(text, named || FILE)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && !named) return { values: {}, origins: {} }
    throw new ConfigError(`${path}: ${code === 'ENOENT' ? 'there is no such file' : message}`)
  }
}
