import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type Scalar } from 'yaml'
import { ConfigError, type Environment, type Origins, SETTING_NAMES } from './config.ts'

const FILE = 'lookout.config.yaml'
/** In the file, settings have no prefix and are written small. */
const NAMES = new Map(SETTING_NAMES.map((name) => [name.replace(/^LOOKOUT_/, '').toLowerCase(), name]))

export interface FileSettings {
  /** As variables of the environment would have them. */
  readonly settings: Environment
  readonly origins: Origins
}

/**
 * The settings of `LOOKOUT_CONFIG`, or of `lookout.config.yaml` in the working directory where there is one.
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
    if (code === 'ENOENT' && !named) return { settings: {}, origins: {} }
    throw new ConfigError(`${path}: ${code === 'ENOENT' ? 'there is no such file' : message}`)
  }
}

export function parseConfigFile(text: string, file: string): FileSettings {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const place = (offset: number | undefined) => `${file}:${lines.linePos(offset ?? 0).line}`
  const [broken] = document.errors
  if (broken) throw new ConfigError(`${place(broken.pos[0])}: ${broken.message.split('\n')[0]}`)
  const { contents } = document
  const settings: Record<string, string> = {}
  const origins: Record<string, string> = {}
  if (contents === null) return { settings, origins }
  if (!isMap<Scalar, Node | null>(contents)) throw new ConfigError(`${place(0)}: expected settings, as in 'port: 8080'`)
  for (const { key, value } of contents.items) {
    const where = place(key.range?.[0])
    const name = NAMES.get(String(key.value))
    if (name === undefined) {
      throw new ConfigError(`${where}: there is no setting '${key.value}'; there are ${[...NAMES.keys()].join(', ')}`)
    }
    const written = value === null ? '' : asVariable(value)
    if (written === null) throw new ConfigError(`${where}: ${key.value}: expected a value, or a list of values`)
    settings[name] = written
    origins[name] = `${where}: ${key.value}`
  }
  return { settings, origins }
}

/** `8080`, `a,b` for a list, `chat=600,models=60` for a map; `on` and `off` for true and false. */
function asVariable(node: Node): string | null {
  if (isScalar(node)) return scalarText(node)
  const items = isSeq<Node>(node)
    ? node.items.map((item) => (isScalar(item) ? scalarText(item) : null))
    : isMap<Scalar, Node>(node)
      ? node.items.map(({ key, value }) => (isScalar(value) ? `${key.value}=${scalarText(value)}` : null))
      : [null]
  return items.includes(null) ? null : items.join(',')
}

function scalarText({ value, source }: Scalar): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  // As it is written: 1.10 is no number to whoever means a version, and 007 is a name.
  return typeof value === 'string' ? value : (source ?? String(value))
}
