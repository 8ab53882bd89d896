import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import { Accounts } from '../../src/accounts/accounts.ts'
import { Database } from '../../src/storage/database.ts'
import type { OrganisationLimits } from '../../src/storage/schema.ts'

/** Direct access to the accounts in the database that the servers of the suite share. */
export class TestAccounts {
  readonly database: Database
  readonly accounts: Accounts

  private constructor(database: Database) {
    this.database = database
    this.accounts = new Accounts(database)
  }

  static async open(): Promise<TestAccounts> {
    const database = await Database.open({ url: inject('databaseUrl'), directory: '', cacheDirectory: '' })
    return new TestAccounts(database)
  }

  /** Creates an organisation for one test, with a key. */
  async organisation(limits: OrganisationLimits = {}): Promise<{ organisation: string; key: string; keyId: string }> {
    const organisation = `test-${randomBytes(6).toString('hex')}`
    await this.accounts.createOrganisation(organisation, limits)
    const { key, about } = await this.accounts.createKey({ organisation })
    return { organisation, key, keyId: about.id }
  }

  close(): Promise<void> {
    return this.database.close()
  }
}
