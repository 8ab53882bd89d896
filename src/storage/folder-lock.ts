import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

export const LOCK_FILE = 'lock'

/**
 * A lock on a folder that ends with its process, however that ends. Node has no lock of its own; SQLite, which is part of
 * Node, brings one that every platform has.
 */
export class FolderLock implements Disposable {
  readonly #database: DatabaseSync

  private constructor(database: DatabaseSync) {
    this.#database = database
  }

  /** The lock of the one process that may use the folder; null when another holds it, in either way. */
  static exclusive(directory: string): FolderLock | null {
    return FolderLock.#take(directory, (database) => database.exec('BEGIN EXCLUSIVE'))
  }

  /** A lock that many processes can hold, but none beside an exclusive one; null while there is such a one. */
  static shared(directory: string): FolderLock | null {
    return FolderLock.#take(directory, (database) => {
      database.exec('BEGIN')
      database.prepare('SELECT count(*) FROM sqlite_schema').get()
    })
  }

  static #take(directory: string, lock: (database: DatabaseSync) => void): FolderLock | null {
    const database = new DatabaseSync(join(directory, LOCK_FILE), { timeout: 0 })
    try {
      lock(database)
      return new FolderLock(database)
    } catch (error) {
      database.close()
      if (error instanceof Error && /locked/.test(error.message)) return null
      throw error
    }
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close()
  }
}
