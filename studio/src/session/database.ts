/** A thin layer over IndexedDB: promises for its requests and transactions. */
export class BrowserDatabase {
  readonly #open: () => Promise<IDBDatabase>
  #database: Promise<IDBDatabase> | null = null

  /** @param upgrade makes the stores of a database that is new or older than `version`. */
  constructor(name: string, version: number, upgrade: (database: IDBDatabase) => void) {
    this.#open = () =>
      new Promise((resolve, reject) => {
        const request = indexedDB.open(name, version)
        request.onupgradeneeded = () => upgrade(request.result)
        request.onblocked = () => reject(new Error('another tab has an older version of this page open'))
        request.onerror = () => reject(request.error)
        request.onsuccess = () => {
          const database = request.result
          const forget = () => {
            this.#database = null
          }
          // A newer page in another tab may go on; when the user clears the browser's storage, it is made again.
          database.onversionchange = () => {
            database.close()
            forget()
          }
          database.onclose = forget
          resolve(database)
        }
      })
  }

  /**
   * Runs a transaction. Nothing but requests of its stores may be awaited in `use`.
   * @throws DOMException `QuotaExceededError` when the storage is full; nothing of it is written then.
   */
  async run<Value>(
    stores: readonly string[],
    mode: IDBTransactionMode,
    use: (store: (name: string) => IDBObjectStore) => Promise<Value> | Value,
  ): Promise<Value> {
    this.#database ??= this.#open()
    const opening = this.#database
    const database = await opening.catch((error: unknown) => {
      this.#database = null
      throw error
    })
    const transaction = database.transaction([...stores], mode)
    const ended = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve()
      transaction.onabort = () => reject(transaction.error ?? new DOMException('Aborted', 'AbortError'))
    })
    // Whichever fails first is thrown below.
    ended.catch(() => {})
    let value: Value
    try {
      value = await use((name) => transaction.objectStore(name))
    } catch (error) {
      // The reason of a failed request is the transaction's.
      await ended.catch((reason: unknown) => {
        throw reason
      })
      throw error
    }
    await ended
    return value
  }
}

export function resultOf<Value>(request: IDBRequest<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
}
