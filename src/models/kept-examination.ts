import { lstat, rm, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { isAlive } from '../lib/is-alive.ts'
import { replaceFile } from '../lib/replace-file.ts'
import { areSame, filesOf } from './card-files.ts'
import { readPlain } from './read/plain-file.ts'

/** Beside a card of the model store: what the doctor has found out about its model. */
const FILE = 'examination.json'
/** No process works longer than this at one, except a server, which keeps that to itself. */
export const LONGEST_MS = 30 * 60_000

/** Far more than the longest one takes. */
const MAX_BYTES = 2 ** 22

const line = z.string().max(200)
const text = z.string().max(20_000)
const time = z.iso.datetime()

const schema = z.object({
  /** `waiting`: for another one to end, or for memory. `failed`: it could not be carried out, or not to its end. */
  state: z.enum(['waiting', 'running', 'done', 'skipped', 'failed']),
  startedAt: time,
  finishedAt: time.nullable(),
  /** Versions of Lookout and llama.cpp. */
  lookout: line,
  llamaCpp: line,
  /** One or two sentences for people; null before any check has ended. */
  overall: text.nullable(),
  /** Whether the model does what its card promises, as far as it was checked. */
  ok: z.boolean().nullable(),
  /** Mean error of boxes or points in patches, in the notation of the card; null where it was not measured. */
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
  /** The process that examines, or did. */
  by: z.object({ pid: z.int().positive(), host: line }),
  /** The card and its files, as they were examined. */
  files: z.record(z.string(), z.string()),
})

export type KeptExamination = z.output<typeof schema>

/**
 * What is kept of the examination of a card's model; null where there is nothing, or it is about other files.
 * @param warn is told, in one line, of a file that cannot be used.
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
 * Keeps an examination, in place of any other one of the card.
 * @returns false where its card or files are no longer what was examined: nothing is written then.
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

/** Whether another process may still be at work on it. */
export function isUnderWay({ state, startedAt, by }: KeptExamination): boolean {
  if (state !== 'running' || Date.now() - Date.parse(startedAt) > LONGEST_MS) return false
  return by.host !== hostname() || (by.pid !== process.pid && isAlive(by.pid))
}

function pathOf(card: string): string {
  return join(dirname(card), FILE)
}
