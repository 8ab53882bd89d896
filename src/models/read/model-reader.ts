import { ApiError } from '../../lib/errors/errors.ts'
import { GuardedProcess, ProcessEnded } from '../../lib/guarded/guarded-process.ts'
import { type Attempt, answerOf } from '../../lib/guarded/guarded-program.ts'
import { CardError } from '../card-error.ts'
import { type ByteSource, readHead } from './gguf.ts'
import { MOST_CHARACTERS, type PackedMetadata, unpackMetadata } from './gguf-digest.ts'
import type { GgufValue } from './gguf-value.ts'
import type { FolderHeaders } from './hugging-face.ts'
import type { ReaderQuestion, TemplateReport } from './reader-process.ts'
import type { CardFolder } from './weight-files.ts'

/** Known headers take some ten milliseconds, and known templates as long. */
const LIMIT_MS = 5_000
/** For headers of 128 MiB, of which two copies exist at a time. */
const MEMORY_BYTES = 2 ** 30
const HEAP_MB = 256
const IDLE_MS = 10_000

export type { ReaderQuestion } from './reader-process.ts'

export const READER = {
  program: new URL('./reader-process.ts', import.meta.url),
  limitMs: LIMIT_MS,
  memoryBytes: MEMORY_BYTES,
  heapMb: HEAP_MB,
  idleMs: IDLE_MS,
} as const

/**
 * The process that reads files of models for this one. Models are untrusted: their files may be crafted to crash a
 * server. The results are bounded, and no other part of this program parses these files while it serves.
 */
const reader = new GuardedProcess<ReaderQuestion, Attempt<unknown>>(READER)

/** Reads the metadata of a GGUF file. @throws Error that says why it cannot be read; ProcessEnded. */
export async function readMetadata(path: string): Promise<ReadonlyMap<string, GgufValue>> {
  return unpackMetadata(await ask<PackedMetadata>({ type: 'file', path, size: null }))
}

/**
 * Reads the metadata of a GGUF file, here or elsewhere, and checks that the file can hold the tensors that it lists.
 * @throws Error that says why it cannot be read; ProcessEnded.
 */
export async function readCheckedMetadata(
  from: string | ByteSource,
  size: number,
): Promise<ReadonlyMap<string, GgufValue>> {
  const packed =
    typeof from === 'string'
      ? await ask<PackedMetadata>({ type: 'file', path: from, size })
      : await readHead(from, (head, size) => ask<PackedMetadata | null>({ type: 'head', head, size }))
  return unpackMetadata(packed)
}

/** Why a LoRA adapter does not fit a model, as a predicate; null if it does. @param model all parts of its file. */
export function readAdapterProblem(path: string, model: readonly string[]): Promise<string | null> {
  return ask<string | null>({ type: 'adapter', path, model }).catch((error: Error) => {
    if (error instanceof ApiError) throw error
    return `cannot be read: ${error.message}`
  })
}

/** Reads the small files of a Hugging Face folder. @throws Error that names the card and, if possible, the file. */
export function readFolder(name: string, { file, directory }: CardFolder): Promise<FolderHeaders> {
  return ask<FolderHeaders>({ type: 'folder', name, place: { file, directory } }).catch((error: Error) => {
    if (!(error instanceof ProcessEnded)) throw error
    throw new CardError(file, 'engine.tokenizer', `the folder ${name} cannot be read: ${error.message}`, {
      cause: error,
    })
  })
}

/** A template that cannot be used; the message says why. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError'
}

/**
 * Probes what a template shows about its model, and how to call it.
 * @param milliseconds of processor time.
 * @throws TemplateError; ProcessEnded for one that loops for ever or fills the memory; ApiError 503.
 */
export async function probeGuarded(source: string, milliseconds = LIMIT_MS): Promise<TemplateReport> {
  if (source.length >= MOST_CHARACTERS) {
    throw new TemplateError(`The chat template has more than ${MOST_CHARACTERS - 1} characters`)
  }
  try {
    return await ask<TemplateReport>({ type: 'template', source }, milliseconds)
  } catch (error) {
    // If no process can be started, the template is not to blame.
    if (error instanceof ProcessEnded || error instanceof ApiError) throw error
    throw new TemplateError((error as Error).message, { cause: error })
  }
}

/** Starts the process before the first question. */
export function warmUpReader(): void {
  reader.warmUp()
}

async function ask<Answer>(question: ReaderQuestion, milliseconds?: number): Promise<Answer> {
  return answerOf(await reader.ask(question, milliseconds)) as Answer
}
