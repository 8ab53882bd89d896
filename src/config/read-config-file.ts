import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError, type Environment, type FileSettings } from './config.ts'

/** Some editors and operators use the second name, which would otherwise have no effect. */
const FILES = ['lookout.config.yaml', 'lookout.config.yml']

/**
 * The settings from `LOOKOUT_CONFIG`, or from `lookout.config.yaml` or `.yml` in the working directory if there is one.
 * @throws ConfigError that names the file and the line.
 */
export async function readConfigFile(environment: Environment, directory: string): Promise<FileSettings> {
  const named = environment.LOOKOUT_CONFIG
  for (const [name, path] of named ? [[named, named] as const] : FILES.map((file) => [file, join(directory, file)])) {
    try {
      const text = await readFile(path!, 'utf8')
      // Loaded only if there is a file: the YAML parser takes 3 MiB.
      const { parseConfigFile } = await import('./config-file.ts')
      return parseConfigFile(text, name!)
    } catch (error) {
      if (error instanceof ConfigError) throw error
      const { code, message } = error as NodeJS.ErrnoException
      if (code !== 'ENOENT' || named)
        throw new ConfigError(`${path}: ${code === 'ENOENT' ? 'there is no such file' : message}`)
    }
  }
  return { values: {}, origins: {} }
}
