import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMap, LineCounter, type Node, parseDocument, type Scalar } from 'yaml'
import { ConfigError, type Environment, type FileSettings } from './config.ts'
import { nearestName } from './nearest-name.ts'
import { SETTINGS } from './settings.ts'

const FILE = 'lookout.config.yaml'
const NAMES: readonly string[] = SETTINGS.map(({ name }) => name)

/**
 * The settings of `LOOKOUT_CONFIG`, or of `lookout.config.yaml` in the working directory where there is one. Only the
 * names are checked.
 * @throws ConfigError that names the file and the line.
 */
export async function readConfigFile(environment: Environment, directory: string): Promise<FileSettings> {
  const named = environment.LOOKOUT_CONFIG
  const path = named || join(directory, FILE)
  try {
    return parseConfigFile(await readFile(path, 'utf8'), named || FILE)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && !named) return { values: {}, origins: {} }
    throw new ConfigError(`${path}: ${code === 'ENOENT' ? 'there is no such file' : message}`)
  }
}

/** @throws ConfigError */
export function parseConfigFile(text: string, file: string): FileSettings {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const place = (offset: number | undefined) => `${file}:${lines.linePos(offset ?? 0).line}`
  const [broken] = document.errors
  if (broken) throw new ConfigError(`${place(broken.pos[0])}: ${firstLine(broken)}`)
  const { contents } = document
  const values: Record<string, unknown> = {}
  const origins: Record<string, string> = {}
  if (contents === null) return { values, origins }
  if (!isMap<Scalar, Node | null>(contents)) throw new ConfigError(`${place(0)}: expected settings, as in 'port: 8080'`)
  for (const { key, value } of contents.items) {
    const where = place(key.range?.[0])
    const name = String(key.value)
    if (!NAMES.includes(name)) throw new ConfigError(`${where}: ${unknownName(name)}`)
    try {
      values[name] = value?.toJS(document)
    } catch (error) {
      throw new ConfigError(`${where}: ${name}: ${firstLine(error as Error)}`)
    }
    origins[name] = `${where}: ${name}`
  }
  return { values, origins }
}

function unknownName(name: string): string {
  const nearest = nearestName(name, NAMES)
  const hint = nearest === null ? `the settings are ${NAMES.join(', ')}` : `did you mean ${nearest}?`
  return `there is no setting '${name}'; ${hint}`
}

function firstLine({ message }: Error): string {
  return message.split('\n')[0]!
}
