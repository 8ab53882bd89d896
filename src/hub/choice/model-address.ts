import { closeNames, findEntry, findEntryOf } from '../../catalogue/catalogue.ts'
import type { CatalogueEntry } from '../../catalogue/catalogue-schema.ts'
import { ConfigError } from '../../config/config.ts'
import { isPlainSubpath, isRepositoryId } from '../cache/safe-names.ts'

/** The model that the user asked for. */
export type ModelAddress =
  | {
      readonly kind: 'repository'
      readonly id: string
      /** A quantisation such as Q4_K_M, or the path of a file; null leaves the choice to us. */
      readonly wanted: string | null
      /** A branch, a tag, `refs/pr/1` or a commit. */
      readonly revision: string
      /** The catalogue's entry for these files. */
      readonly entry: CatalogueEntry | null
      /** Whether the user gave the entry's short name, and so leaves more to the catalogue. */
      readonly isShort: boolean
    }
  | { readonly kind: 'file'; readonly url: URL }

const EXPECTED =
  'expected a name that lookout pull lists, user/repository, user/repository:Q4_K_M, hf://user/repository or https://host/path/file.gguf'

/**
 * Reads `short-name[:quant]` of the catalogue, `user/repo[:quant]`, `hf://user/repo[:quant]`, the address of a repository's
 * page or file, or of any GGUF file.
 * @throws ConfigError
 */
export async function readAddress(text: string, endpoint: URL): Promise<ModelAddress> {
  if (/^https?:\/\//i.test(text)) return withEntry(readUrl(text, endpoint))
  const [, prefix, id, wanted] = /^(hf:\/\/|hf:|hf\.co\/)?([^:]+)(?::(.+))?$/s.exec(text) ?? []
  if (prefix === undefined && id !== undefined && !/[/\\]/.test(id)) return readShortName(id, wanted)
  if (id === undefined || !isRepositoryId(id) || (wanted !== undefined && !isPlainSubpath(wanted))) {
    throw new ConfigError(`'${shownAddress(text)}' is not a model address; ${EXPECTED}`)
  }
  return withEntry({ kind: 'repository', id, wanted: wanted ?? null, revision: 'main' })
}

async function readShortName(name: string, quant: string | undefined): Promise<ModelAddress> {
  const entry = await findEntry(name)
  if (entry === undefined) {
    const close = await closeNames(name)
    const meant = close.length === 0 ? '' : ` (did you mean ${close.join(' or ')}?)`
    throw new ConfigError(`'${name}' is neither a model of the catalogue nor an address${meant}; ${EXPECTED}`)
  }
  if (quant !== undefined && !isPlainSubpath(quant)) {
    throw new ConfigError(`'${quant}' is not a quantisation of ${entry.name}; expected ${entry.name}:Q4_K_M`)
  }
  const { repository: id } = entry
  return { kind: 'repository', id, wanted: quant ?? null, revision: 'main', entry, isShort: true }
}

type PlainAddress =
  | Omit<Extract<ModelAddress, { kind: 'repository' }>, 'entry' | 'isShort'>
  | Extract<ModelAddress, { kind: 'file' }>

async function withEntry(address: PlainAddress): Promise<ModelAddress> {
  if (address.kind === 'file') return address
  return { ...address, entry: (await findEntryOf(address.id)) ?? null, isShort: false }
}

/** A page of the hub, before it is decoded: a branch's slash is `%2F`, unlike those around it. `refs/pr/1` may be written out. */
const PAGE = /^\/([^/]+\/[^/]+)(?:\/(?:resolve|blob|tree)\/(refs\/(?:pr|convert)\/[^/]+|[^/]+)(?:\/(.+))?)?\/?$/

function readUrl(text: string, endpoint: URL): PlainAddress {
  if (!URL.canParse(text)) throw new ConfigError(`'${shownAddress(text)}' is not an address; ${EXPECTED}`)
  const url = new URL(text)
  const hubs = new Set([endpoint.host, 'huggingface.co', 'hf.co'])
  const [, id, revision = 'main', file] = (PAGE.exec(url.pathname) ?? []).map((part) => part && decodedPath(part))
  if (hubs.has(url.host) && id !== undefined && isRepositoryId(id) && !/\.gguf$/i.test(id)) {
    return { kind: 'repository', id, wanted: file ?? null, revision }
  }
  if (!/\.gguf$/i.test(decodedPath(url.pathname)))
    throw new ConfigError(`'${url.origin}${url.pathname}' does not lead to a .gguf file; ${EXPECTED}`)
  return { kind: 'file', url }
}

/** An address for messages, without its password and signature, even if it is invalid. */
export function shownAddress(text: string): string {
  const begin = text.indexOf('://') + 3
  if (begin < 3) return text
  const at = text.lastIndexOf('@')
  const shown = at < begin ? text : `${text.slice(0, begin)}***${text.slice(at)}`
  return shown.replace(/\?.*/s, '')
}

/** The path unchanged if its percent-encoding is invalid. */
export function decodedPath(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
