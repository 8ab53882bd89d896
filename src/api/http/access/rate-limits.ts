import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Principal } from '../../../accounts/principal.ts'
import type { Allowance, RateLimits } from '../../../accounts/rate-limits.ts'
import type { Bucket } from '../../../config/rate-limits.ts'
import { type ApiError, rateLimited, tryAgainIn, wholeSeconds } from '../../../lib/errors/errors.ts'
import { principalOf } from './auth.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The rate limit that the route counts towards. */
    bucket?: Bucket
  }
}

/** Limits each organisation's requests on routes with a bucket. Every response says how many requests remain. */
export function limitRates(app: FastifyInstance, limits: RateLimits): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { bucket } = request.routeOptions.config
    if (!bucket) return done()
    const taken = limits.take(principalOf(request), bucket)
    const allow = (allowance: Allowance) => {
      setHeaders(reply, allowance)
      done(allowance.allowed ? undefined : exceeded(allowance, bucket))
    }
    if (taken instanceof Promise) taken.then(allow, (error: Error) => done(error))
    else allow(taken)
  })
}

/**
 * Counts a request that is not an HTTP request.
 * @throws ApiError 429
 */
export async function countRequest(limits: RateLimits, principal: Principal, bucket: Bucket): Promise<void> {
  const allowance = await limits.take(principal, bucket)
  if (!allowance.allowed) throw exceeded(allowance, bucket)
}

/** Sets the rate-limit headers of OpenAI's API. */
function setHeaders(reply: FastifyReply, { limit, remaining, resetMs }: Allowance): void {
  reply.header('x-ratelimit-limit-requests', limit)
  reply.header('x-ratelimit-remaining-requests', remaining)
  reply.header('x-ratelimit-reset-requests', `${(Math.ceil(resetMs) / 1000).toFixed(3)}s`)
}

function exceeded({ limit, retryAfterMs }: Allowance, bucket: Bucket): ApiError {
  const seconds = wholeSeconds(retryAfterMs / 1000)
  return rateLimited(`Rate limit reached: ${limit} requests per minute (${bucket}). ${tryAgainIn(seconds)}`, seconds)
}
