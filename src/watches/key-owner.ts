import type { KeyOwners } from '../accounts/authenticator.ts'
import type { Principal } from '../accounts/principal.ts'
import { invalidRequest, serviceUnavailable } from '../lib/errors/errors.ts'
import type { HeldWatch } from './watch-desk.ts'

/** How long the owner of a key is cached. */
const OWNER_MS = 5_000

/** Finds the owner of the key that registered a watch. */
export class KeyOwner {
  readonly #keys: KeyOwners
  #owner: { readonly principal: Principal; readonly until: number } | null = null

  constructor(keys: KeyOwners) {
    this.#keys = keys
  }

  /** @throws ApiError 403 for a key that is no longer valid, 503 for one that this server does not know. */
  async of({ keyId, organisationId }: HeldWatch): Promise<Principal> {
    const now = performance.now()
    if (this.#owner !== null && now < this.#owner.until) return this.#owner.principal
    const principal = await this.#keys.ownerOf(keyId, organisationId)
    if (principal === 'elsewhere')
      throw serviceUnavailable('This server does not have the key that registered the watch', 30)
    if (principal === null) {
      throw invalidRequest('The key that registered the watch is revoked or has expired; register it again', null, {
        status: 403,
      })
    }
    this.#owner = { principal, until: now + OWNER_MS }
    return principal
  }
}
