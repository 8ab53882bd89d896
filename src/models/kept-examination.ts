import { lstat, rm, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { isAlive } from '../lib/is-alive.ts'
import { replaceFile } from '../lib/replace-file.ts'
import { areSame, filesOf } from './card-files.ts'
import { readPlain } from './read/plain-file.ts'

/** Beside a card of the model store: the doctor's findings about its model. */
const FILE = 'examination.json'
/** The longest examination by a process other than a server, which tracks its own. */
export const LONGEST_MS = 30 * 60_000

/** Far more than the longest examination takes. */
const MAX_BYTES = 2 ** 22

const line = z.string().max(200)
const text = z.string().max(20_000)
const time = z.iso.datetime()

const schema = z.object({
  /** `waiting`: for another examination to end, or for memory. `failed`: it could not be carried out or completed. */
  state: z.enum(['waiting', 'running', 'done', 'skipped', 'failed']),
  startedAt: time,
  finishedAt: time.nullable(),
  /** Versions of Lookout and llama.cpp. */
  lookout: line,
  llamaCpp: line,
  /** One or two sentences for users; null before any check has ended. */
  overall: text.nullable(),
  /** Whether the model does what its card promises, as far as checked. */
  ok: z.boolean().nullable(),
  /** Mean error of boxes or points in patches, in the notation of the card; null if it was not measured. */
  placesOffBy: z.number().min(0).nullable(),
  findings: z
    .array(
      z.object({
        check: line,
        verdict: z.enum(['ok', 'warning', 'failed', 'noise', 'skipped', 'measured']),
        finding: text,
      }),
    )
    .max(100),
  /** Checks that have not ended. */
  unchecked: z.array(line).max(100),
  /** The process that examines, or examined, the model. */
  by: z.object({ pid: z.int().positive(), host: line }),
  /** Versions of the card and its files at the examination. */
  files: z.record(z.string(), z.string()),
})

export type KeptExamination = z.output<typeof schema>

/**
 * The stored examination of a card's model; null if there is none, or if it is about other versions of the files.
 * @param warn gets one line about a file that cannot be used.
 */
export async function readExamination(
  card: string,
  warn: (message: string) => void = () => {},
): Promise<KeptExamination | null> {
  const path = pathOf(card)
  const entry = await lstat(path).catch(() => null)
  if (entry === null) return null
  try {
    if (entry.size > MAX_BYTES) throw new Error(`it has ${entry.size} bytes; at most ${MAX_BYTES} are read`)
    const kept = schema.parse(JSON.parse(await readPlain(path)))
    return areSame(kept.files, await filesOf(card)) ? kept : null
  } catch (error) {
    const reason = error instanceof z.ZodError ? 'it has another shape' : (error as Error).message
    warn(`${path} is ignored: ${reason}`)
    return null
  }
}

/**
 * Stores an examination, replacing an earlier one of the card.
 * @returns false if its card or files have changed since: then nothing is written.
 * @throws the error of the system.
 */
export async function keepExamination(card: string, examination: KeptExamination): Promise<boolean> {
  if (!areSame(examination.files, await filesOf(card))) return false
  const json = `${JSON.stringify(examination, null, 2)}\n`
  await replaceFile(pathOf(card), (draft) => writeFile(draft, json, { flag: 'wx' }))
  return true
}

export async function forgetExamination(card: string): Promise<void> {
  await rm(pathOf(card), { force: true, recursive: true })
}

/** Whether another process may still be carrying it out. */
export function isUnderWay({ state, startedAt, by }: KeptExamination): boolean {
  if (state !== 'running' || Date.now() - Date.parse(startedAt) > LONGEST_MS) return false
  return by.host !== hostname() || (by.pid !== process.pid && isAlive(by.pid))
}

function pathOf(card: string): string {
  return join(dirname(card), FILE)
}
