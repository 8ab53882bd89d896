import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const LOCK_FILE = 'lock'

/**
 * A lock on a folder that ends with its process, however the process ends. Node has no file locks, but SQLite, which is
 * part of Node, has them on every platform.
 */
export class FolderLock implements Disposable {
  readonly #database: DatabaseSync

  private constructor(database: DatabaseSync) {
    this.#database = database
  }

  /** Takes the lock for this process alone; null when another process holds an exclusive or a shared one. */
  static exclusive(directory: string): FolderLock | null {
    return FolderLock.#take(directory, (database) => database.exec('BEGIN EXCLUSIVE'))
  }

  /** Takes a lock that many processes can share; null when another process holds the exclusive one. */
  static shared(directory: string): FolderLock | null {
    return FolderLock.#take(directory, (database) => {
      database.exec('BEGIN')
      database.prepare('SELECT count(*) FROM sqlite_schema').get()
    })
  }

  static #take(directory: string, lock: (database: DatabaseSync) => void): FolderLock | null {
    const path = join(directory, LOCK_FILE)
    let database: DatabaseSync | null = null
    try {
      database = new DatabaseSync(path, { timeout: 0 })
      // Without a journal on disk, a lock takes no room, so servers can start on a full disk.
      database.exec('PRAGMA journal_mode = MEMORY')
      lock(database)
      return new FolderLock(database)
    } catch (error) {
      database?.close()
      const message = error instanceof Error ? error.message : String(error)
      if (/locked/.test(message)) return null
      throw new Error(`${path} cannot be locked: ${message}`, { cause: error })
    }
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close()
  }
}
