import { isMap, LineCounter, type Node, parseDocument, type Scalar } from 'yaml'
import { ConfigError, type FileSettings } from './config.ts'
import { nearestName } from './nearest-name.ts'
import { SETTINGS } from './settings.ts'

const NAMES: readonly string[] = SETTINGS.map(({ name }) => name)

/**
 * The settings in the text of a configuration file. Only their names are checked.
 * @param file the file's name in errors.
 * @throws ConfigError that names the line.
 */
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
