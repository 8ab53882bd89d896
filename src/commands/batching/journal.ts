import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { splitLines } from '../../batches/lines.ts'
import { ConfigError } from '../../config/config.ts'
import { FolderLock } from '../../storage/folder-lock.ts'

/** What is asked about: a picture, or a request by its `custom_id`. */
export interface Input {
  readonly file: string
  /** Size in bytes, and Unix milliseconds of the last change of the file: a result counts only for the same ones. */
  readonly bytes: number
  readonly changed: number
}

interface JournalEntry extends Input {
  readonly result: unknown
}

/** Where the entry of an input is. */
interface EntryPlace extends Omit<Input, 'file'> {
  readonly start: number
  readonly length: number
}

/**
 * The results so far of a command that may be stopped at any moment. They are kept beside the output until that has all of
 * them, in a folder with a file that has a line for the task, and one for each input. Only their places are in memory.
 */
export class Journal {
  readonly #folder: string
  readonly #file: FileHandle
  readonly #lock: FolderLock
  readonly #places = new Map<string, EntryPlace>()
  #added: Promise<unknown> = Promise.resolve()

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
    const own = JSON.stringify(task)
    const file = await open(path, 'a+')
    const journal = new Journal(folder, file, lock)
    const { size } = await file.stat()
    let [head, end] = ['', size]
    for await (const { number, start, length, bytes } of splitLines(createReadStream(path), Number.POSITIVE_INFINITY)) {
      // A line that was cut off was never counted.
      if (start + length === size) end = start
      else if (number > 1) journal.#remember(bytes!, start)
      else head = bytes!.toString()
    }
    if (head !== '' && head !== own) {
      throw new ConfigError(
        `${folder} has the results of another task for this output: finish that one, or delete the folder`,
      )
    }
    await file.truncate(end)
    if (head === '') await file.appendFile(`${own}\n`)
    return journal
  }

  /** Whether there is a result of an input that has not changed since. */
  has({ file, bytes, changed }: Input): boolean {
    const place = this.#places.get(file)
    return place !== undefined && place.bytes === bytes && place.changed === changed
  }

  /** The result of an input that has one. */
  async find({ file }: Input): Promise<unknown> {
    const { start, length } = this.#places.get(file)!
    const { buffer } = await this.#file.read(Buffer.alloc(length), 0, length, start)
    return (JSON.parse(buffer.toString()) as JournalEntry).result
  }

  /** @throws ConfigError where there is no room. */
  async add(input: Input, result: unknown): Promise<void> {
    const { file, bytes, changed } = input
    const line = Buffer.from(`${JSON.stringify({ file, bytes, changed, result } satisfies JournalEntry)}\n`)
    const added = this.#added.then(async () => {
      const { size: start } = await this.#file.stat()
      await this.#file.appendFile(line)
      this.#places.set(file, { bytes, changed, start, length: line.length - 1 })
    })
    this.#added = added.catch(() => {})
    await added.catch((error: unknown) => {
      throw cannotWrite(this.#folder, error)
    })
  }

  /** @param isComplete whether the output has all of it, so that it is needed no longer. */
  async close(isComplete: boolean): Promise<void> {
    await this.#file.close()
    this.#lock[Symbol.dispose]()
    if (isComplete) await rm(this.#folder, { recursive: true, force: true })
  }

  #remember(line: Buffer, start: number): void {
    try {
      const { file, bytes, changed } = JSON.parse(line.toString()) as JournalEntry
      this.#places.set(file, { bytes, changed, start, length: line.length })
    } catch {
      // It was cut off when the disk was full, and others were written behind it: its input is asked about again.
    }
  }
}

function cannotWrite(folder: string, error: unknown): ConfigError {
  return new ConfigError(`${folder} cannot be written: ${(error as NodeJS.ErrnoException).code ?? error}`)
}
