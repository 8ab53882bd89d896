import type { KvType } from '../../models/derive/kv-cost.ts'
import { chooseQuantisation, fitOf } from '../../models/memory-fit.ts'
import type { HubFile } from '../download/hub-client.ts'
import type { Repository } from '../download/repository.ts'
import { HubError } from '../hub-error.ts'
import type { Choice } from '../pull-event.ts'
import { formatBytes } from '../units.ts'
import { askedFor, type Candidate, candidatesOf, isProjector } from './gguf-names.ts'
import { checkEncoder, checkLanguage } from './header-check.ts'
import { estimateMemory, type Metadata } from './memory-estimate.ts'

/** A repository with more different models than this is not a list of quantisations. */
const MAX_HEADERS = 4
/** Models and encoders of one repository; known ones have some ten. */
const MAX_MODELS = 500
const MAX_PROJECTORS = 100
/** The most names in an error. */
const MAX_LABELS = 50

/** The image encoder that a model would get. */
export type ProjectorOf = (candidate: Candidate) => HubFile | undefined

/** The `kvType` of a model's card, if it sets one. */
export type KvTypeOf = (candidate: Candidate) => KvType | undefined

export interface EstimatedCandidate {
  readonly candidate: Candidate
  readonly memory: number
}

/** @throws HubError when the repository has no model, or not the one that was asked for. */
export function findCandidates(
  repository: Repository,
  wanted: string | null,
): { all: Candidate[]; asked: Candidate | null } {
  const { id, files } = repository
  const all = candidatesOf(files)
  if (all.length === 0) {
    throw new HubError(`${id} has no GGUF model: look for a repository of the same model with GGUF in its name`)
  }
  const projectors = files.filter(({ path }) => isProjector(path)).length
  if (all.length > MAX_MODELS || projectors > MAX_PROJECTORS) {
    throw new HubError(
      `${id} has ${all.length} models and ${projectors} encoders; at most ${MAX_MODELS} and ${MAX_PROJECTORS} are looked at`,
    )
  }
  if (wanted === null) return { all, asked: null }
  const found = askedFor(all, wanted)
  if (found.length === 1) return { all, asked: found[0]! }
  const problem = found.length === 0 ? `has no ${wanted}; it has` : `has several files that are ${wanted}; name one of`
  throw new HubError(`${id} ${problem} ${labelsOf(found.length === 0 ? all : found)}`)
}

/** Estimates of all candidates. Headers of quantisations of one model are alike, so one of them is read. */
export async function estimate(
  repository: Repository,
  candidates: readonly Candidate[],
  { projectorOf, kvTypeOf }: { readonly projectorOf: ProjectorOf; readonly kvTypeOf: KvTypeOf },
): Promise<EstimatedCandidate[]> {
  const [languages, encoders] = [fewHeaders(), fewHeaders()]
  const estimated: EstimatedCandidate[] = []
  for (const candidate of await inCacheFirst(repository, candidates)) {
    const language = await languages(modelKey(candidate), () => readLanguage(repository, candidate))
    const projector = projectorOf(candidate)
    const encoder = projector ? await encoders(projector.path, () => readEncoder(repository, projector)) : null
    const bytes = candidate.bytes + (projector?.size ?? 0)
    const kvType = kvTypeOf(candidate)
    estimated.push({ candidate, memory: estimateMemory({ bytes, language: language ?? new Map(), encoder, kvType }) })
  }
  return estimated.sort((a, b) => a.candidate.bytes - b.candidate.bytes)
}

/** @throws HubError for a file that is broken, or no language model. */
export async function readLanguage(repository: Repository, { files: [first] }: Candidate): Promise<Metadata> {
  const language = await repository.metadata(first!)
  checkLanguage(language, `${first!.path} of ${repository.id}`)
  return language
}

/** @throws HubError for a file that is broken, or no encoder. */
export async function readEncoder(repository: Repository, projector: HubFile): Promise<Metadata> {
  const encoder = await repository.metadata(projector)
  checkEncoder(encoder, `${projector.path} of ${repository.id}`)
  return encoder
}

/** The candidate for a user who named none: the largest that leaves room in memory, but none that is too coarse. */
export function chooseByMemory(estimated: readonly EstimatedCandidate[], available: number): EstimatedCandidate {
  const sized = estimated.map((one) => ({ ...one.candidate, memory: one.memory, one }))
  return chooseQuantisation(sized, available).one
}

/** @throws HubError when the model does not fit and was not asked for by name. @returns a warning, or null. */
export function checkMemory(
  id: string,
  chosen: EstimatedCandidate,
  estimated: readonly EstimatedCandidate[],
  { available, isAsked }: { readonly available: number; readonly isAsked: boolean },
): string | null {
  if (chosen.memory <= available) return null
  const needs = `${id}:${chosen.candidate.label} needs about ${formatBytes(chosen.memory)} of memory, and ${formatBytes(available)} are available`
  const smaller = estimated.findLast(
    ({ candidate, memory }) => candidate.bytes < chosen.candidate.bytes && memory <= available,
  )
  const advice =
    smaller === undefined
      ? 'no smaller choice fits'
      : `${smaller.candidate.label} needs ${formatBytes(smaller.memory)}: lookout pull ${id}:${smaller.candidate.label}`
  if (isAsked) return `${needs}; it will be slow, or not load (${advice})`
  throw new HubError(
    `${needs}; ${advice}. To fetch it nevertheless, name it: lookout pull ${id}:${chosen.candidate.label}`,
  )
}

/** The rows of the table. */
export async function toChoices(
  repository: Repository,
  estimated: readonly EstimatedCandidate[],
  chosen: EstimatedCandidate,
  { available, projectorOf }: { readonly available: number; readonly projectorOf: ProjectorOf },
): Promise<Choice[]> {
  return Promise.all(
    estimated.map(async ({ candidate, memory }) => {
      const projector = projectorOf(candidate)
      const files = [...candidate.files, ...(projector === undefined ? [] : [projector])]
      const here = await Promise.all(files.map((file) => repository.has(file)))
      return {
        quant: candidate.label,
        files: files.map(({ path }) => path),
        bytes: files.reduce((sum, { size }) => sum + size, 0),
        memory: Math.round(memory),
        fits: fitOf(memory, available),
        cached: here.every(Boolean),
        chosen: candidate === chosen.candidate,
      }
    }),
  )
}

function labelsOf(candidates: readonly Candidate[]): string {
  const more = candidates.length - MAX_LABELS
  const labels = candidates.slice(0, MAX_LABELS).map(({ label }) => label)
  return `${labels.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** A file's name without its quantisation. */
function modelKey({ files: [first], quantisation }: Candidate): string {
  const name = first!.path.slice(first!.path.lastIndexOf('/') + 1).replace(/-00001-of-\d{5}\.gguf$/i, '.gguf')
  return quantisation === null ? name : name.replaceAll(quantisation, '')
}

async function inCacheFirst(repository: Repository, candidates: readonly Candidate[]): Promise<Candidate[]> {
  const here = await Promise.all(candidates.map(({ files }) => repository.has(files[0]!)))
  return [...candidates.filter((_, index) => here[index]), ...candidates.filter((_, index) => !here[index])]
}

/** Reads one header per key, for the first few keys. A broken file matters only if it is the one to be used. */
function fewHeaders() {
  const known = new Map<string, Metadata | null>()
  return async (key: string, read: () => Promise<Metadata>): Promise<Metadata | null> => {
    if (!known.has(key)) known.set(key, known.size < MAX_HEADERS ? await read().catch(ignoreBroken) : null)
    return known.get(key)!
  }
}

function ignoreBroken(error: unknown): null {
  if (error instanceof HubError) return null
  throw error
}
