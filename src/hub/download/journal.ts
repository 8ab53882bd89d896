import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import { parseJsonOr } from '../../lib/json/parse-json.ts'
import { type ByteRange, joined, totalOf } from './byte-ranges.ts'

const schema = z.object({
  /** What is fetched: the hash of a file, or an address. */
  key: z.string(),
  size: z.int().nonnegative(),
  /** What `If-Range` takes. */
  etag: z.string().nullable(),
  /** What is safely in the file. */
  done: z.array(z.tuple([z.int().nonnegative(), z.int().nonnegative()])),
})

/** In a file beside one that is not complete yet, and beside a complete one that has no hash. */
export function journalPath(incomplete: string): string {
  return `${incomplete}.json`
}

/** Null where a file has no journal that can be read. */
export async function readJournal(file: string): Promise<z.infer<typeof schema> | null> {
  return schema.safeParse(parseJsonOr(await readFile(journalPath(file), 'utf8').catch(() => ''), null)).data ?? null
}

/** What there is of a file that is not complete yet: what an earlier attempt at the same file has noted, or nothing. */
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
