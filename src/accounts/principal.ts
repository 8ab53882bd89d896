import type { OrganisationLimits } from '../storage/index.ts'
import { SCOPES, type Scope } from './api-key.ts'

/** Who a request is made for. Limits, quotas, files and caches are an organisation's. */
export interface Principal {
  readonly organisation: string
  /** Id of the key that was shown; never the key. */
  readonly key: string
  readonly scopes: ReadonlySet<Scope>
  readonly limits: OrganisationLimits
}

/** Names the key that the configuration fixes: it is in no list, and gone when the setting is. */
export const CONFIGURED_KEY = 'LOOKOUT_API_KEY'
/** The organisation of the configured key, and of the one that the first start makes. */
export const FIRST_ORGANISATION = 'default'

export const ALL_SCOPES: ReadonlySet<Scope> = new Set(SCOPES)
