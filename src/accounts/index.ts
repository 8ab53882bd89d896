export { AccountError, Accounts, type ApiKey, type Organisation } from './accounts.ts'
export { base62, newApiKey, SCOPES, type Scope } from './api-key.ts'
export { type ApiKeys, Authenticator } from './authenticator.ts'
export { Budgets } from './budgets.ts'
export { openRateLimits } from './open-rate-limits.ts'
export { CONFIGURED_KEY, FIRST_ORGANISATION, type Principal } from './principal.ts'
export {
  type Allowance,
  BUCKETS,
  type Bucket,
  type Clock,
  type LimitChanges,
  LocalRateLimits,
  type RateLimits,
} from './rate-limits.ts'
export { UsageLedger, type UsageRecord } from './usage-ledger.ts'
