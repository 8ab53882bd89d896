import { createReadStream } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { splitLines } from '../../batches/lines.ts'
import { ConfigError } from '../../config/config.ts'
import { parseRecord } from '../../lib/json/parse-json.ts'
import { makeFolder } from '../../lib/make-folder.ts'
import { FolderLock } from '../../storage/folder-lock.ts'

/** An input: a picture, or a request by its `custom_id`. */
export interface Input {
  readonly file: string
  /** Size in bytes and time of the last change in Unix milliseconds: a result counts only while both stay the same. */
  readonly bytes: number
  readonly changed: number
}

interface JournalEntry extends Input {
  readonly result: unknown
}

/** Position of an input's entry in the file. */
interface EntryPlace extends Omit<Input, 'file'> {
  readonly start: number
  readonly length: number
}

/**
 * The results so far of a command that may be stopped at any moment. They are stored beside the output until the output
 * is complete, in a folder with a file that has a line for the task and one for each input. Only their offsets are in
 * memory.
 */
export type Journal = Awaited<ReturnType<typeof readJournal>>

/**
 * Opens the journal of an output, with the results that are already there.
 * @param isFolder whether the output is a folder.
 * @param task everything that the results depend on; only results of the same task count.
 * @throws ConfigError for a journal of another task, or one that another process is writing.
 */
export async function openJournal(output: string, isFolder: boolean, task: object): Promise<Journal> {
  const folder = isFolder ? join(output, '.lookout-batch') : join(dirname(output), `.${basename(output)}.lookout-batch`)
  try {
    await makeFolder(folder, 0o777)
    const lock = FolderLock.exclusive(folder)
    if (lock === null) throw new ConfigError(`-o ${output}: another lookout batch is writing it`)
    return await readJournal(folder, lock, JSON.stringify(task))
  } catch (error) {
    throw error instanceof ConfigError ? error : cannotWrite(folder, error)
  }
}

async function readJournal(folder: string, lock: FolderLock, task: string) {
  const path = join(folder, 'results.jsonl')
  const places = new Map<string, EntryPlace>()
  let last: Promise<unknown> = Promise.resolve()
  const file = await open(path, 'a+')
  const { size } = await file.stat()
  let [head, end] = ['', size]
  for await (const { number, start, length, bytes } of splitLines(createReadStream(path), Number.POSITIVE_INFINITY)) {
    const line = bytes!.toString()
    // A truncated last line never counted.
    if (start + length === size) end = start
    else if (number === 1) head = line
    else {
      // A line that is not JSON was truncated when the disk was full, and others were written after it: its input is
      // asked again.
      const entry = parseRecord(line) as JournalEntry | null
      if (entry) places.set(entry.file, { bytes: entry.bytes, changed: entry.changed, start, length: bytes!.length })
    }
  }
  if (head !== '' && head !== task) {
    throw new ConfigError(
      `${folder} has the results of another task for this output: finish that one, or delete the folder`,
    )
  }
  await file.truncate(end)
  if (head === '') await file.appendFile(`${task}\n`)
  return {
    /** Whether there is a result for the input, which has not changed since. */
    has({ file, bytes, changed }: Input): boolean {
      const place = places.get(file)
      return place !== undefined && place.bytes === bytes && place.changed === changed
    },
    /** The result of an input for which `has` is true. */
    async find(input: Input): Promise<unknown> {
      const { start, length } = places.get(input.file)!
      const { buffer } = await file.read(Buffer.alloc(length), 0, length, start)
      return (JSON.parse(buffer.toString()) as JournalEntry).result
    },
    /** @throws ConfigError if the disk is full. */
    async add({ file: name, bytes, changed }: Input, result: unknown): Promise<void> {
      const line = Buffer.from(`${JSON.stringify({ file: name, bytes, changed, result } satisfies JournalEntry)}\n`)
      const added = last.then(async () => {
        const { size: start } = await file.stat()
        await file.appendFile(line)
        places.set(name, { bytes, changed, start, length: line.length - 1 })
      })
      last = added.catch(() => {})
      await added.catch((error: unknown) => {
        throw cannotWrite(folder, error)
      })
    },
    /** @param isComplete whether the output has all results, so that the journal is no longer needed. */
    async close(isComplete: boolean): Promise<void> {
      await file.close()
      lock[Symbol.dispose]()
      if (isComplete) await rm(folder, { recursive: true, force: true })
    },
  }
}

function cannotWrite(folder: string, error: unknown): ConfigError {
  return new ConfigError(`${folder} cannot be written: ${(error as NodeJS.ErrnoException).code ?? error}`)
}
