import { OPEN_PATHS } from './access/auth.ts'

/**
 * The liveness paths of other servers, which load tools and probes request: vLLM, SGLang and TGI; llama-server, for clients
 * that know only a base URL with `/v1`; SageMaker.
 */
const LIVENESS = /^\/(health|v1\/health|ping)\/?(?=$|\?)/
/** Matches an id such as `user/repo:Q4`, whose slash not all clients encode, and the rest of the path. */
const MODEL = /^(\/v1\/models\/)(?![^/?#]+\/examination\/?(?=$|[?#]))([^/?#]+\/[^?#]+?)(\/examination)?\/?(?=$|[?#])/

/** A proxy may put an origin before the path. */
const ORIGIN = /^https?:\/\/[^/?#]+(?=\/)/i

/** Maps a request's URL to this server's own. */
export function ownUrl(url: string): string {
  return url
    .replace(ORIGIN, '')
    .replace(LIVENESS, OPEN_PATHS.live)
    .replace(MODEL, (_, path: string, id: string, part = '') => path + id.replaceAll('/', '%2F') + part)
}
