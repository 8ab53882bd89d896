import { createHash } from 'node:crypto'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Longest path of a socket that every platform takes. */
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
