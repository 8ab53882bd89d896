export { type ApiKeys, FixedApiKeys, keptApiKey, newApiKey, type Principal } from './api-keys.ts'
export { type Allowance, type Bucket, type Clock, RateLimits } from './rate-limits.ts'
