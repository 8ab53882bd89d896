import type { Organisation } from '../../accounts/accounts.ts'
import { ConfigError, prefixDirectory } from '../../config/config.ts'
import { BUCKETS } from '../../config/rate-limits.ts'
import { removeFromPrefixFolder } from '../../inference/local/prefix-folders.ts'
import type { OrganisationLimits } from '../../storage/schema.ts'
import { type Command, runAction } from '../command.ts'
import { loadConfig } from '../load-config.ts'
import { readOptions } from '../options.ts'
import { printJson, printTable, showMoment, wrap } from '../output.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { withAccounts } from './with-accounts.ts'

export const orgs: Command = {
  help: `Usage: lookout orgs create NAME [LIMITS]
       lookout orgs limit NAME LIMITS
       lookout orgs list [--json]
       lookout orgs revoke NAME

A running server notices changes within seconds. Revoking an organisation disables its keys, keeps its files,
and removes its entries from the prefix cache in this machine's data directory.
--json prints a JSON array instead of a table.

LIMITS override the server's; 'none' restores the server's limit:
  --requests CLASS=N   requests per minute; can be given more than once. CLASS is one of
${wrap(BUCKETS.join(', '), 97)
  .map((line) => ' '.repeat(23) + line)
  .join('\n')}
  --monthly-credits N  most credits that its tokens may cost in a calendar month (UTC)
  --storage N          most GiB of files

${SETTINGS_HELP}`,
  async run(args) {
    const expected = 'expected orgs create, limit, list or revoke; see lookout orgs --help'
    return runAction(args, { create, limit, list, revoke }, expected)
  },
}

const LIMIT_OPTIONS = {
  requests: { type: 'string', multiple: true },
  'monthly-credits': { type: 'string' },
  storage: { type: 'string' },
} as const

async function create(args: readonly string[]): Promise<void> {
  const { values, positionals } = readOptions(args, LIMIT_OPTIONS, ['NAME'])
  const limits = readLimits(values)({})
  const made = await withAccounts((accounts) => accounts.createOrganisation(positionals[0]!, limits))
  process.stdout.write(`Made organisation ${made.id}; lookout keys create --org ${made.id} makes a key for it\n`)
}

async function limit(args: readonly string[]): Promise<void> {
  const { values, positionals } = readOptions(args, LIMIT_OPTIONS, ['NAME'])
  const changed = await withAccounts((accounts) => accounts.setLimits(positionals[0]!, readLimits(values)))
  process.stdout.write(`${changed.id}: ${showLimits(changed.limits)}\n`)
}

interface LimitValues {
  readonly requests?: readonly string[] | undefined
  readonly 'monthly-credits'?: string | undefined
  readonly storage?: string | undefined
}

function readLimits(values: LimitValues): (limits: OrganisationLimits) => OrganisationLimits {
  const requests = (values.requests ?? []).map((text) => {
    const [, name, limit] = /^(\w+)=(none|\d{1,9})$/.exec(text) ?? []
    const bucket = BUCKETS.find((known) => known === name)
    if (!bucket) throw new ConfigError(`--requests: expected CLASS=N, of ${BUCKETS.join(', ')}, not '${text}'`)
    return [bucket, limit === 'none' ? null : Number(limit)] as const
  })
  const credits = readNumber(values['monthly-credits'], '--monthly-credits')
  const gib = readNumber(values.storage, '--storage')
  return (limits) => {
    const requestsPerMinute = merge(limits.requestsPerMinute ?? {}, Object.fromEntries(requests))
    return merge<OrganisationLimits>(limits, {
      requestsPerMinute: Object.keys(requestsPerMinute).length > 0 ? requestsPerMinute : null,
      monthlyCredits: credits,
      storedBytes: gib === null || gib === undefined ? gib : Math.round(gib * 2 ** 30),
    })
  }
}

/** Undefined for an option that is not given, null for `none`. */
function readNumber(text: string | undefined, option: string): number | null | undefined {
  if (text === undefined) return undefined
  if (text === 'none') return null
  if (!/^\d{1,15}(\.\d+)?$/.test(text)) throw new ConfigError(`${option}: expected a number or none, not '${text}'`)
  return Number(text)
}

/** Merges changes: null removes a field, undefined keeps it. */
function merge<Of extends object>(
  before: Of,
  changes: { readonly [Key in keyof Of]?: Of[Key] | null | undefined },
): Of {
  const merged = {
    ...before,
    ...Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)),
  }
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null)) as Of
}

async function list(args: readonly string[]): Promise<void> {
  const { values } = readOptions(args, { json: { type: 'boolean' } })
  const found = await withAccounts((accounts) => accounts.listOrganisations())
  if (values.json) return printJson(found.map(toJson))
  printTable(
    ['ORGANISATION', 'STATE', 'MADE', 'STORED', 'LIMITS'],
    found.map(({ id, revokedAt, createdAt, storedBytes, limits }) => [
      id,
      revokedAt ? 'revoked' : 'active',
      showMoment(createdAt),
      `${(storedBytes / 2 ** 20).toFixed(1)} MiB`,
      showLimits(limits),
    ]),
  )
}

function toJson({ id, revokedAt, createdAt, storedBytes, limits }: Organisation): object {
  const { requestsPerMinute = {}, monthlyCredits = null, storedBytes: most = null } = limits
  return {
    id,
    state: revokedAt ? 'revoked' : 'active',
    created_at: createdAt,
    revoked_at: revokedAt,
    stored_bytes: storedBytes,
    limits: { requests_per_minute: requestsPerMinute, monthly_credits: monthlyCredits, stored_bytes: most },
  }
}

function showLimits({ requestsPerMinute = {}, monthlyCredits, storedBytes }: OrganisationLimits): string {
  const shown = Object.entries(requestsPerMinute).map(([bucket, limit]) => `${bucket}=${limit}`)
  if (monthlyCredits !== undefined) shown.push(`credits=${monthlyCredits}`)
  if (storedBytes !== undefined) shown.push(`storage=${Number((storedBytes / 2 ** 30).toFixed(3))} GiB`)
  return shown.length === 0 ? "the server's own" : shown.join(' ')
}

async function revoke(args: readonly string[]): Promise<void> {
  const { positionals } = readOptions(args, {}, ['NAME'])
  await withAccounts((accounts) => accounts.revokeOrganisation(positionals[0]!))
  const { dataDirectory } = await loadConfig()
  await removeFromPrefixFolder(prefixDirectory(dataDirectory), positionals[0]!)
  process.stdout.write(`Revoked ${positionals[0]}; running servers notice within seconds\n`)
}
