import { type FileHandle, mkdir, open, readFile, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { ConfigError } from '../../config/config.ts'

/** A picture that is done. It counts for the same file only as long as that does not change. */
export interface JournalEntry {
  readonly file: string
  /** Size in bytes, and Unix milliseconds of the last change. */
  readonly bytes: number
  readonly changed: number
  readonly result: unknown
}

/** Where the results of an output are kept until they are complete. */
export function journalPath(output: string, isFolder: boolean): string {
  return isFolder ? join(output, '.lookout-batch') : join(dirname(output), `.${basename(output)}.lookout-batch`)
}

/**
 * The results so far of a command that may be stopped at any moment: a file with a line for the task, and one for each
 * picture.
 */
export class Journal {
  readonly #path: string
  readonly #file: FileHandle
  readonly #entries = new Map<string, JournalEntry>()

  private constructor(path: string, file: FileHandle) {
    this.#path = path
    this.#file = file
  }

  /**
   * Goes on with the results that are there.
   * @param task what decides on the results; only those of the same task count.
   * @throws ConfigError for a journal of another task.
   */
  static async open(path: string, task: object): Promise<Journal> {
    const text = await readFile(path, 'utf8').catch(() => '')
    // A line that was cut off was never counted.
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    const [head, ...lines] = whole.split('\n').filter((line) => line !== '')
    const own = JSON.stringify(task)
    if (head !== undefined && head !== own) {
      throw new ConfigError(
        `${path} has the results of another task for this output: finish that one, or delete the file`,
      )
    }
    try {
      await mkdir(dirname(path), { recursive: true })
      const file = await open(path, 'a')
      await file.truncate(Buffer.byteLength(whole))
      const journal = new Journal(path, file)
      for (const line of lines) journal.#remember(JSON.parse(line) as JournalEntry)
      if (head === undefined) await file.appendFile(`${own}\n`)
      return journal
    } catch (error) {
      throw new ConfigError(`${path} cannot be written: ${(error as NodeJS.ErrnoException).code ?? error}`)
    }
  }

  /** The result of a file that has not changed since; undefined where there is none. */
  find({ file, bytes, changed }: Omit<JournalEntry, 'result'>): unknown {
    const entry = this.#entries.get(file)
    return entry !== undefined && entry.bytes === bytes && entry.changed === changed ? entry.result : undefined
  }

  async add(entry: JournalEntry): Promise<void> {
    this.#remember(entry)
    await this.#file.appendFile(`${JSON.stringify(entry)}\n`)
  }

  /** @param isComplete whether the output has all of it, so that it is needed no longer. */
  async close(isComplete: boolean): Promise<void> {
    await this.#file.close()
    if (isComplete) await rm(this.#path, { force: true })
  }

  #remember(entry: JournalEntry): void {
    this.#entries.set(entry.file, entry)
  }
}
