import { OPEN_PATHS } from './access/auth.ts'

/**
 * Where other servers have their check of liveness, which load tools and probes ask: vLLM, SGLang and TGI; llama-server,
 * for clients that know only a base URL with `/v1`; SageMaker.
 */
const LIVENESS = /^\/(health|v1\/health|ping)\/?(?=$|\?)/
/** An id such as `user/repo:Q4`, whose slash not all clients encode, and what may follow it in a path. */
const MODEL = /^(\/v1\/models\/)(?![^/?#]+\/examination\/?(?=$|[?#]))([^/?#]+\/[^?#]+?)(\/examination)?\/?(?=$|[?#])/

/** What a proxy may put before the path. */
const ORIGIN = /^https?:\/\/[^/?#]+(?=\/)/i

/** The URL under which this server has what a request asks for. */
export function ownUrl(url: string): string {
  return url
    .replace(ORIGIN, '')
    .replace(LIVENESS, OPEN_PATHS.live)
    .replace(MODEL, (_, path: string, id: string, part = '') => path + id.replaceAll('/', '%2F') + part)
}
