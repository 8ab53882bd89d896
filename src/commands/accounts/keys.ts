import type { ApiKey } from '../../accounts/accounts.ts'
import { SCOPES, type Scope } from '../../accounts/api-key.ts'
import { FIRST_ORGANISATION } from '../../accounts/principal.ts'
import { ConfigError } from '../../config/config.ts'
import { type Command, runAction } from '../command.ts'
import { readMoment, readOptions } from '../options.ts'
import { printJson, printTable, showMoment } from '../output.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { withAccounts } from './with-accounts.ts'

export const keys: Command = {
  help: `Usage: lookout keys create [--org NAME] [--name TEXT] [--scopes LIST] [--expires TIME]
       lookout keys list [--org NAME] [--json]
       lookout keys revoke ID

A running server notices changes within seconds. A key is shown only once, when you create it.

  --org      organisation [${FIRST_ORGANISATION}]
  --name     a note for you
  --scopes   what the key can be used for, comma-separated: ${SCOPES.join(', ')} [inference,files,watch]
  --expires  when the key expires: 90d, 12h or 2027-01-31 [never]
  --json     a JSON array instead of a table

${SETTINGS_HELP}`,
  async run(args) {
    const expected = 'expected keys create, keys list or keys revoke; see lookout keys --help'
    return runAction(args, { create, list, revoke }, expected)
  },
}

async function create(args: readonly string[]): Promise<void> {
  const { values } = readOptions(args, {
    org: { type: 'string' },
    name: { type: 'string' },
    scopes: { type: 'string' },
    expires: { type: 'string' },
  })
  const wanted = {
    organisation: values.org ?? FIRST_ORGANISATION,
    name: values.name ?? '',
    ...(values.scopes === undefined ? {} : { scopes: readScopes(values.scopes) }),
    expiresAt: values.expires === undefined ? null : readExpiry(values.expires),
  }
  const { key, about } = await withAccounts((accounts) => accounts.createKey(wanted))
  process.stderr.write(`Made ${about.id} for ${about.organisation}. Keep the key: it is shown only once.\n`)
  process.stdout.write(`${key}\n`)
}

function readExpiry(text: string): Date {
  const end = readMoment(text, 1, '--expires')
  if (end.getTime() <= Date.now()) throw new ConfigError(`--expires: expected a time in the future, not '${text}'`)
  return end
}

function readScopes(text: string): Scope[] {
  return text.split(',').map((name) => {
    const scope = SCOPES.find((known) => known === name.trim())
    if (scope === undefined) throw new ConfigError(`--scopes: expected some of ${SCOPES.join(', ')}, not '${name}'`)
    return scope
  })
}

async function list(args: readonly string[]): Promise<void> {
  const { values } = readOptions(args, { org: { type: 'string' }, json: { type: 'boolean' } })
  const found = await withAccounts((accounts) => accounts.listKeys(values.org ?? null))
  if (values.json) return printJson(found.map(toJson))
  printTable(
    ['ID', 'ORGANISATION', 'KEY', 'NAME', 'SCOPES', 'STATE', 'MADE', 'EXPIRES', 'LAST USED'],
    found.map((key) => [
      key.id,
      key.organisation,
      `${key.prefix}...`,
      key.name || '-',
      key.scopes.join(','),
      stateOf(key),
      showMoment(key.createdAt),
      showMoment(key.expiresAt),
      showMoment(key.lastUsedAt),
    ]),
  )
}

function toJson(key: ApiKey): object {
  return {
    id: key.id,
    organisation: key.organisation,
    prefix: key.prefix,
    name: key.name,
    scopes: key.scopes,
    state: stateOf(key),
    created_at: key.createdAt,
    expires_at: key.expiresAt,
    revoked_at: key.revokedAt,
    last_used_at: key.lastUsedAt,
  }
}

function stateOf({ revokedAt, expiresAt }: ApiKey): string {
  if (revokedAt) return 'revoked'
  return expiresAt && expiresAt.getTime() <= Date.now() ? 'expired' : 'active'
}

async function revoke(args: readonly string[]): Promise<void> {
  const { positionals } = readOptions(args, {}, ['ID'])
  const revoked = await withAccounts((accounts) => accounts.revokeKey(positionals[0]!))
  process.stdout.write(`Revoked ${revoked.id} of ${revoked.organisation}; running servers notice within seconds\n`)
}
