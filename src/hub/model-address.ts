import { ConfigError } from '../config/config.ts'
import { isPlainSubpath, isRepositoryId } from './safe-names.ts'

/** What the user asked for. */
export type ModelAddress =
  | {
      readonly kind: 'repository'
      readonly id: string
      /** A quantisation such as Q4_K_M, or the path of a file; null leaves the choice to us. */
      readonly wanted: string | null
      /** A branch, a tag or a commit. */
      readonly revision: string
    }
  | { readonly kind: 'file'; readonly url: URL }

const EXPECTED = 'expected user/repository, user/repository:Q4_K_M, hf://user/repository or https://host/path/file.gguf'

/**
 * Reads `user/repo[:quant]`, `hf://user/repo[:quant]`, the address of a repository's page or file, or of any GGUF file.
 * @throws ConfigError
 */
export function readAddress(text: string, endpoint: URL): ModelAddress {
  if (/^https?:\/\//i.test(text)) return readUrl(text, endpoint)
  const [, id, wanted] = /^(?:hf:\/\/|hf:|hf\.co\/)?([^:]+)(?::(.+))?$/s.exec(text) ?? []
  if (id === undefined || !isRepositoryId(id) || (wanted !== undefined && !isPlainSubpath(wanted))) {
    throw new ConfigError(`'${text}' is no model's address; ${EXPECTED}`)
  }
  return { kind: 'repository', id, wanted: wanted ?? null, revision: 'main' }
}

function readUrl(text: string, endpoint: URL): ModelAddress {
  if (!URL.canParse(text)) throw new ConfigError(`'${text}' is no address; ${EXPECTED}`)
  const url = new URL(text)
  const hubs = new Set([endpoint.host, 'huggingface.co', 'hf.co'])
  const path = decoded(url.pathname)
  const [, id, , revision = 'main', file] =
    /^\/([^/]+\/[^/]+)(?:\/(resolve|blob|tree)\/([^/]+)(?:\/(.+))?)?\/?$/.exec(path) ?? []
  if (hubs.has(url.host) && id !== undefined && isRepositoryId(id) && !/\.gguf$/i.test(id)) {
    return { kind: 'repository', id, wanted: file ?? null, revision }
  }
  if (!/\.gguf$/i.test(path)) throw new ConfigError(`'${text}' does not lead to a .gguf file; ${EXPECTED}`)
  return { kind: 'file', url }
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
