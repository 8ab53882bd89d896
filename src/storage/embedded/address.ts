import { createHash } from 'node:crypto'
import { lstatSync, type Stats, statSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** The longest path of a socket, in bytes, that every platform accepts. */
const MAX_SOCKET_PATH = 100
/** PostgreSQL's own name for the socket of port 5432: `psql -h FOLDER postgres` finds it too. */
const SOCKET = '.s.PGSQL.5432'

/** Where the database of a folder is reached: a socket in the folder itself, unless its path is too long for one. */
export function socketPath(directory: string): string {
  const path = join(directory, SOCKET)
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH) return path
  const hash = createHash('sha256').update(directory).digest('hex').slice(0, 16)
  return join(tmpdir(), `lookout-${hash}`, SOCKET)
}

/**
 * What is wrong with the socket's folder: in the temporary folder, another user may have made it to impersonate the
 * database.
 */
export function problemOfSocket(directory: string): string | null {
  const folder = dirname(socketPath(directory))
  if (folder === directory) return null
  const stats = lstatSync(folder, { throwIfNoEntry: false })
  if (stats === undefined || [process.getuid?.(), ownerOf(directory).uid].includes(stats.uid)) return null
  return `${folder}, the folder of its socket, belongs to another user`
}

/** The owner of a folder, or its future owner if it does not exist yet. */
export function ownerOf(directory: string): Stats {
  return statSync(directory, { throwIfNoEntry: false }) ?? ownerOf(dirname(directory))
}

/** A socket that always connects to its own path: node-postgres only accepts short ones. */
export class PathSocket extends Socket {
  readonly #path: string

  constructor(path: string) {
    super()
    this.#path = path
  }

  override connect(): this {
    return super.connect(this.#path)
  }
}
