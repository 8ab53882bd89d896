import { stat } from 'node:fs/promises'
import { basename } from 'node:path/posix'
import { readCatalogue } from '../catalogue/catalogue.ts'
import type { CatalogueEntry } from '../catalogue/catalogue-schema.ts'
import { rankForMachine } from '../catalogue/machine-fit.ts'
import { ConfigError } from '../config/config.ts'
import { mismatch } from '../families/gguf.ts'
import { cardFolder, type NewCard, storedKvTypes } from './cache/model-store.ts'
import { type Candidate, isProjector } from './choice/gguf-names.ts'
import { contextOf, type Metadata } from './choice/memory-estimate.ts'
import { type ModelAddress, shownAddress } from './choice/model-address.ts'
import { projectorReason, projectorsFor } from './choice/projector-choice.ts'
import {
  checkMemory,
  chooseByMemory,
  type EstimatedCandidate,
  estimate,
  findCandidates,
  type KvTypeOf,
  type ProjectorOf,
  readEncoder,
  readLanguage,
  toChoices,
} from './choice/quant-choice.ts'
import { checkSpace } from './download/fetch-file.ts'
import type { HubFile } from './download/hub-client.ts'
import { openRepository, type Repository } from './download/repository.ts'
import { fetchWithProgress } from './fetch-with-progress.ts'
import { HubError } from './hub-error.ts'
import type { FetchingOptions, PullOptions, PullRequest } from './pull-options.ts'

type Wanted = Extract<ModelAddress, { kind: 'repository' }>

/** Fetches a model of a repository on the hub into the cache. @returns the contents of its card. */
export async function pullFromRepository(
  address: Wanted,
  request: PullRequest,
  options: FetchingOptions,
): Promise<NewCard> {
  const { hub, report, available, settings } = options
  const { note } = hub
  const repository = await openRepository(address, settings, hub)
  const { all, asked } = findCandidates(repository, request.quant ?? address.wanted)
  const { projector: given } = request
  const named = given === null || given === 'auto' ? undefined : namedProjector(repository, given)
  const projectorOf: ProjectorOf = ({ files: [first] }) =>
    given === 'auto' ? projectorsByRank(first!.path, repository, address.entry)[0] : named
  const idOf = ({ label }: Candidate) => request.id ?? `${repository.id}:${label}`
  const kvTypes = await storedKvTypes(options.store)
  const kvTypeOf: KvTypeOf = (candidate) => kvTypes.get(idOf(candidate))
  const estimated = await estimate(repository, all, { projectorOf, kvTypeOf })
  const chosen =
    estimated.find(({ candidate }) => candidate === asked) ??
    (await recommended(address, estimated, options)) ??
    chooseByMemory(estimated, available)
  const language = await readLanguage(repository, chosen.candidate)
  const first = chosen.candidate.files[0]!
  const { entry } = address
  const projector = await chooseProjector(repository, request, { model: first.path, entry, language }, options)
  report({
    type: 'choice',
    model: repository.id,
    commit: repository.commit,
    available,
    context: contextOf(language),
    choices: await toChoices(repository, estimated, chosen, { available, projectorOf }),
    projector: projector && { file: projector.name, reason: projector.reason },
  })
  const warning = checkMemory(repository.id, chosen, estimated, { available, isAsked: asked !== null })
  if (warning !== null) note(warning)
  const limit = entry === null ? null : limitOf(entry)
  if (limit !== null) note(limit)
  if (projector === null && given !== null) {
    const elsewhere = repository.files.filter(({ path }) => isProjector(path)).map(({ path }) => path)
    if (elsewhere.length > 0) {
      note(
        `there is no projector in the folder of ${first.path} or near it; --mmproj takes one of ${elsewhere.join(', ')}`,
      )
    }
  }
  const files = [...chosen.candidate.files, ...(projector?.file === undefined ? [] : [projector.file])]
  const paths = await fetchAll(repository, files, options)
  await repository.noteCommit()
  return {
    id: idOf(chosen.candidate),
    aliases: entry === null ? [] : [entry.name, `${entry.name}:${chosen.candidate.label}`],
    source: `hf:${repository.id}@${repository.commit}`,
    model: paths.get(first)!,
    projector: projector && (projector.file === undefined ? projector.path : paths.get(projector.file)!),
  }
}

/**
 * For a short name, the quantisation that the catalogue lists for this machine; undefined if it does not fit or exist.
 */
async function recommended(
  { entry, isShort }: Wanted,
  estimated: readonly EstimatedCandidate[],
  { available, machineSpeed }: Pick<PullOptions, 'available' | 'machineSpeed'>,
): Promise<EstimatedCandidate | undefined> {
  if (entry === null || !isShort) return undefined
  const fits = rankForMachine(await readCatalogue(), { available, speed: await machineSpeed() })
  const { quantisation } = fits.find((fit) => fit.entry === entry)!
  return estimated.find(
    ({ candidate, memory }) => candidate.label.toLowerCase() === quantisation.toLowerCase() && memory <= available,
  )
}

const LIMITS = { limited: 'limits commercial use', no: 'forbids commercial use', unknown: 'may limit commercial use' }

/** The limits of a licence, which users must know before they get the model; null if there are none. */
function limitOf({ title, licence: { name, commercialUse, meaning } }: CatalogueEntry): string | null {
  return commercialUse === 'yes' ? null : `The licence of ${title}, ${name}, ${LIMITS[commercialUse]}: ${meaning}`
}

interface ChosenProjector {
  /** Its path in the repository or on this machine. */
  readonly path: string
  readonly name: string
  readonly reason: string
  /** The repository's file. */
  readonly file?: HubFile
}

async function chooseProjector(
  repository: Repository,
  { id, projector: given }: PullRequest,
  about: { readonly model: string; readonly entry: CatalogueEntry | null; readonly language: Metadata },
  { store, outsideProjector }: FetchingOptions,
): Promise<ChosenProjector | null> {
  if (given === null) return null
  const { model, entry, language } = about
  const problemOf = async (file: HubFile) => mismatch({ language, encoder: await readEncoder(repository, file) })
  if (given !== 'auto') {
    const file = namedProjector(repository, given)
    const outside = file ? null : await outsideProjector(given, await cardFolder(store, id ?? repository.id))
    const name = file?.path ?? shownAddress(given)
    const path = file?.path ?? outside?.path
    if (path === undefined) throw new ConfigError(noSuchProjector(repository, given))
    const problem = file ? await problemOf(file) : mismatch({ language, encoder: outside!.metadata })
    if (problem !== null) throw new HubError(`${name} belongs to another model than ${model}: ${problem}`)
    return { name, reason: 'asked for', path, ...(file && { file }) }
  }
  const fitting = projectorsByRank(model, repository, entry)
  const problems: string[] = []
  for (const file of fitting) {
    const problem = await problemOf(file)
    if (problem === null) {
      const reason =
        file.path === entry?.projector?.path ? 'the catalogue names it' : projectorReason(file, fitting, model)
      return { name: file.path, reason, path: file.path, file }
    }
    problems.push(`${file.path}: ${problem}`)
  }
  if (problems.length === 0) return null
  throw new HubError(
    `${repository.id} has no projector that fits ${model} (${problems.join('; ')}). Name one with --mmproj, or leave images out with --no-mmproj`,
  )
}

/** The encoders that may belong to a model, the best first: the one that the catalogue names, then by the rules. */
function projectorsByRank(model: string, repository: Repository, entry: CatalogueEntry | null): HubFile[] {
  const named = entry?.projector ? namedProjector(repository, entry.projector.path) : undefined
  const byRules = projectorsFor(model, repository.files)
  return named === undefined ? byRules : [named, ...byRules.filter((file) => file !== named)]
}

function namedProjector({ files }: Repository, given: string): HubFile | undefined {
  const text = given.toLowerCase()
  const projectors = files.filter(({ path }) => /\.gguf$/i.test(path))
  return (
    projectors.find(({ path }) => path.toLowerCase() === text) ??
    projectors.find(({ path }) => basename(path).toLowerCase() === text)
  )
}

function noSuchProjector({ id, files }: Repository, given: string): string {
  const names = files.filter(({ path }) => isProjector(path)).map(({ path }) => path)
  const has = names.length === 0 ? 'none' : names.join(', ')
  return `--mmproj: there is no file or address '${shownAddress(given)}', and ${id} has no such projector; it has ${has}`
}

/** Fetches the missing files, one after the other. @returns the snapshot's entries. */
async function fetchAll(
  repository: Repository,
  files: readonly HubFile[],
  { hub, report }: FetchingOptions,
): Promise<Map<HubFile, string>> {
  const { cache, commit } = repository
  const missing: HubFile[] = []
  const paths = new Map<HubFile, string>()
  for (const file of files) {
    if (await repository.has(file)) {
      const path = await cache.link(commit, file)
      paths.set(file, path)
      report({ type: 'found', file: file.path, path })
    } else missing.push(file)
  }
  const targets = missing.map((file) => ({ file, target: targetOf(repository, file) }))
  await checkSpace(
    targets.map(({ target }) => target),
    hub.tuning,
  )
  for (const { file, target } of targets) {
    const isNew = await fetchWithProgress(repository.remote(file), target, hub, report)
    const path = await cache.link(commit, file)
    if (!isNew) report({ type: 'found', file: file.path, path })
    paths.set(file, path)
    if (!(await stat(path).catch(() => null))?.isFile()) {
      throw new HubError(`${path} is missing after its download`, {
        told: `${file.path} is missing after its download`,
      })
    }
  }
  return paths
}

function targetOf({ cache }: Repository, { size, blob }: HubFile) {
  return { path: cache.blob(blob!), size, blob, key: blob! }
}
