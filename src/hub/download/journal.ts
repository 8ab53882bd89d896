import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import { parseJsonOr } from '../../lib/json/parse-json.ts'
import { type ByteRange, joined, totalOf } from './byte-ranges.ts'

const schema = z.object({
  /** Identifies the content: the hash of a file, or an address. */
  key: z.string(),
  size: z.int().nonnegative(),
  /** Value for `If-Range`. */
  etag: z.string().nullable(),
  /** Ranges that are safely on the disk. */
  done: z.array(z.tuple([z.int().nonnegative(), z.int().nonnegative()])),
})

/** The journal is beside an incomplete file, and beside a complete one that has no hash. */
export function journalPath(incomplete: string): string {
  return `${incomplete}.json`
}

/** Null if a file has no readable journal. */
export async function readJournal(file: string): Promise<z.infer<typeof schema> | null> {
  return schema.safeParse(parseJsonOr(await readFile(journalPath(file), 'utf8').catch(() => ''), null)).data ?? null
}

/** Opens the journal of an incomplete file: that of an earlier attempt with the same key, or an empty one. */
export async function openJournal(incomplete: string, key: string, size: number) {
  const path = journalPath(incomplete)
  const read = await readJournal(incomplete)
  const old = read?.key === key && read.size === size ? read : null
  let etag = old?.etag ?? null
  let done = joined((old?.done ?? []).filter(([from, to]) => from < to && to <= size))
  let writing = Promise.resolve()
  const write = async () => {
    const draft = `${path}.draft`
    await writeFile(draft, JSON.stringify({ key, size, etag, done }))
    await rename(draft, path)
  }
  return {
    etag,
    done,
    doneBytes: totalOf(done),
    /** Notes a range whose bytes are on the disk. */
    async add(range: ByteRange, latestEtag: string | null): Promise<void> {
      done = joined([...done, range])
      etag = latestEtag
      writing = writing.catch(() => {}).then(write)
      await writing
    },
    remove: () => rm(path, { force: true }),
  }
}
