import { type ApiKey, FIRST_ORGANISATION, SCOPES, type Scope } from '../accounts/index.ts'
import { ConfigError } from '../config/config.ts'
import { SETTINGS_HELP } from '../config/settings-help.ts'
import type { Command } from './command.ts'
import { printTable, readMoment, readOptions, showMoment } from './options.ts'
import { withAccounts } from './with-accounts.ts'

export const keys: Command = {
  help: `Usage: lookout keys create [--org NAME] [--name TEXT] [--scopes LIST] [--expires TIME]
       lookout keys list [--org NAME]
       lookout keys revoke ID

Works beside a running server, which takes notice within seconds. A key is shown once, when it is made.

  --org      organisation (${FIRST_ORGANISATION})
  --name     a note for you
  --scopes   what it may be used for, parted by commas: inference, files, admin (inference,files)
  --expires  when it ends: 90d, 12h or 2027-01-31 (never)

${SETTINGS_HELP}`,
  async run([action, ...args]) {
    switch (action) {
      case 'create':
        return create(args)
      case 'list':
        return list(args)
      case 'revoke':
        return revoke(args)
      default:
        throw new ConfigError('expected keys create, keys list or keys revoke; see lookout keys --help')
    }
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
  process.stderr.write(`Made ${about.id} for ${about.organisation}. Keep the key: it is shown this once.\n`)
  process.stdout.write(`${key}\n`)
}

function readExpiry(text: string): Date {
  const end = readMoment(text, 1, '--expires')
  if (end.getTime() <= Date.now()) throw new ConfigError(`--expires: expected a time to come, not '${text}'`)
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
  const { values } = readOptions(args, { org: { type: 'string' } })
  const found = await withAccounts((accounts) => accounts.listKeys(values.org ?? null))
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

function stateOf({ revokedAt, expiresAt }: ApiKey): string {
  if (revokedAt) return 'revoked'
  return expiresAt && expiresAt.getTime() <= Date.now() ? 'expired' : 'active'
}

async function revoke(args: readonly string[]): Promise<void> {
  const { positionals } = readOptions(args, {}, ['ID'])
  const revoked = await withAccounts((accounts) => accounts.revokeKey(positionals[0]!))
  process.stdout.write(`Revoked ${revoked.id} of ${revoked.organisation}; running servers take notice within seconds\n`)
}
