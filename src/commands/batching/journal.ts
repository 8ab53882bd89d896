import { type FileHandle, mkdir, open, readFile, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { ConfigError } from '../../config/config.ts'
import { FolderLock } from '../../storage/folder-lock.ts'

/** A picture that is done. It counts for the same file only as long as that does not change. */
export interface JournalEntry {
  readonly file: string
  /** Size in bytes, and Unix milliseconds of the last change. */
  readonly bytes: number
  readonly changed: number
  readonly result: unknown
}

/**
 * The results so far of a command that may be stopped at any moment. They are kept beside the output until that has all of
 * them, in a folder with a file that has a line for the task, and one for each picture.
 */
export class Journal {
  readonly #folder: string
  readonly #file: FileHandle
  readonly #lock: FolderLock
  readonly #entries = new Map<string, JournalEntry>()

  private constructor(folder: string, file: FileHandle, lock: FolderLock) {
    this.#folder = folder
    this.#file = file
    this.#lock = lock
  }

  /**
   * Goes on with the results that are there.
   * @param isFolder whether the output is one.
   * @param task what decides on the results; only those of the same task count.
   * @throws ConfigError for a journal of another task, or one that another process writes.
   */
  static async open(output: string, isFolder: boolean, task: object): Promise<Journal> {
    const folder = isFolder
      ? join(output, '.lookout-batch')
      : join(dirname(output), `.${basename(output)}.lookout-batch`)
    try {
      await mkdir(folder, { recursive: true })
      const lock = FolderLock.exclusive(folder)
      if (lock === null) throw new ConfigError(`-o ${output}: another lookout batch is writing it`)
      return await Journal.#read(folder, lock, task)
    } catch (error) {
      throw error instanceof ConfigError ? error : cannotWrite(folder, error)
    }
  }

  static async #read(folder: string, lock: FolderLock, task: object): Promise<Journal> {
    const path = join(folder, 'results.jsonl')
    const text = await readFile(path, 'utf8').catch(() => '')
    // A line that was cut off was never counted.
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    const [head, ...lines] = whole.split('\n').filter((line) => line !== '')
    const own = JSON.stringify(task)
    if (head !== undefined && head !== own) {
      throw new ConfigError(
        `${folder} has the results of another task for this output: finish that one, or delete the folder`,
      )
    }
    const file = await open(path, 'a')
    await file.truncate(Buffer.byteLength(whole))
    const journal = new Journal(folder, file, lock)
    for (const line of lines) journal.#remember(line)
    if (head === undefined) await file.appendFile(`${own}\n`)
    return journal
  }

  /** The result of a file that has not changed since; undefined where there is none. */
  find({ file, bytes, changed }: Omit<JournalEntry, 'result'>): unknown {
    const entry = this.#entries.get(file)
    return entry !== undefined && entry.bytes === bytes && entry.changed === changed ? entry.result : undefined
  }

  /** @throws ConfigError where there is no room. */
  async add(entry: JournalEntry): Promise<void> {
    await this.#file.appendFile(`${JSON.stringify(entry)}\n`).catch((error: unknown) => {
      throw cannotWrite(this.#folder, error)
    })
  }

  /** @param isComplete whether the output has all of it, so that it is needed no longer. */
  async close(isComplete: boolean): Promise<void> {
    await this.#file.close()
    this.#lock[Symbol.dispose]()
    if (isComplete) await rm(this.#folder, { recursive: true, force: true })
  }

  #remember(line: string): void {
    try {
      const entry = JSON.parse(line) as JournalEntry
      this.#entries.set(entry.file, entry)
    } catch {
      // It was cut off when the disk was full, and others were written behind it: its picture is asked about again.
    }
  }
}

function cannotWrite(folder: string, error: unknown): ConfigError {
  return new ConfigError(`${folder} cannot be written: ${(error as NodeJS.ErrnoException).code ?? error}`)
}
