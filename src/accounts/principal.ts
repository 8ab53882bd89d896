import type { OrganisationLimits } from '../storage/schema.ts'
import { SCOPES, type Scope } from './api-key.ts'

/** The organisation and key that a request is made with. Limits, quotas, files and caches belong to organisations. */
export interface Principal {
  readonly organisation: string
  /** Id of the key, never the key itself. */
  readonly key: string
  readonly scopes: ReadonlySet<Scope>
  readonly limits: OrganisationLimits
}

/** Id of the key from the configuration. It is in no list, and exists only while the setting does. */
export const CONFIGURED_KEY = 'LOOKOUT_API_KEY'
/** Id of the key in the Studio's link. It is in no list either. */
export const STUDIO_KEY = 'studio'
/** Id for clients of this machine, which need not send a key. */
const NO_KEY = 'keyless'
/**
 * The organisation of the configured key, the Studio's key, requests without a key, and the key that the first start
 * creates.
 */
export const FIRST_ORGANISATION = 'default'

export const ALL_SCOPES: ReadonlySet<Scope> = new Set(SCOPES)

/**
 * The principal of requests without a key, where these are allowed, before the limits of the organisation are known.
 */
export const KEYLESS: Principal = {
  organisation: FIRST_ORGANISATION,
  key: NO_KEY,
  scopes: new Set(['inference']),
  limits: {},
}
