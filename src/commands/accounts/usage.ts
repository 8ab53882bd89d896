import { ConfigError } from '../../config/config.ts'
import { csvLine } from '../../exports/csv.ts'
import type { Database } from '../../storage/database.ts'
import { sql } from '../../storage/drizzle.ts'
import type { Command } from '../command.ts'
import { readMoment, readOptions } from '../options.ts'
import { JsonArray, printJson, printTable } from '../output.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { withDatabase } from './with-accounts.ts'

/** What rows can be grouped by, and the column of the ledger for it. */
const GROUPS = {
  org: sql`organisation_id`,
  key: sql`key_id`,
  model: sql`model`,
  endpoint: sql`endpoint`,
  day: sql`to_char(at at time zone 'utc', 'YYYY-MM-DD')`,
  month: sql`to_char(at at time zone 'utc', 'YYYY-MM')`,
} as const
type Group = keyof typeof GROUPS

export const usage: Command = {
  help: `Usage: lookout usage [--by LIST] [--org NAME] [--since TIME] [--until TIME] [--csv | --json]
       lookout usage --rows [--org NAME] [--since TIME] [--until TIME] [--json]

  --by     what to group by, comma-separated: ${Object.keys(GROUPS).join(', ')} [org,model]
  --org    only this organisation
  --since  30d, 12h or 2027-01-31 [30d]
  --until  the same [now]
  --rows   every request, as CSV
  --csv    CSV instead of a table
  --json   a JSON array instead of a table or CSV

${SETTINGS_HELP}`,
  async run(args) {
    const { values } = readOptions(args, {
      by: { type: 'string' },
      org: { type: 'string' },
      since: { type: 'string' },
      until: { type: 'string' },
      csv: { type: 'boolean' },
      rows: { type: 'boolean' },
      json: { type: 'boolean' },
    })
    if (values.csv && values.json) throw new ConfigError('--csv and --json: expected only one of them')
    if (values.rows && values.by !== undefined) throw new ConfigError('--rows and --by: expected only one of them')
    const since = readMoment(values.since ?? '30d', -1, '--since')
    const until = values.until === undefined ? null : readMoment(values.until, -1, '--until')
    if (until !== null && until <= since)
      throw new ConfigError(`--until: expected a time after --since, which is ${values.since ?? '30d'}`)
    const which = sql`at >= ${since.toISOString()}::timestamptz
      ${until ? sql`and at < ${until.toISOString()}::timestamptz` : sql``}
      ${values.org === undefined ? sql`` : sql`and organisation_id = ${values.org}`}`
    const format = values.json ? 'json' : values.csv || values.rows ? 'csv' : 'table'
    const groups = readGroups(values.by ?? 'org,model')
    await withDatabase(async (database) => {
      const { Accounts } = await import('../../accounts/accounts.ts')
      if (values.org !== undefined) await new Accounts(database).checkOrganisation(values.org)
      if (values.rows) await printRows(database, which, format)
      else await printSums(database, which, groups, format)
    })
  },
}

function readGroups(text: string): Group[] {
  return text.split(',').map((given) => {
    const name = given.trim()
    if (Object.hasOwn(GROUPS, name)) return name as Group
    throw new ConfigError(`--by: expected some of ${Object.keys(GROUPS).join(', ')}, not '${name}'`)
  })
}

type Format = 'table' | 'csv' | 'json'

async function printSums(
  database: Database,
  which: ReturnType<typeof sql>,
  groups: readonly Group[],
  format: Format,
): Promise<void> {
  const columns = sql.join(
    groups.map((group) => sql`${GROUPS[group]} as ${sql.identifier(group)}`),
    sql`, `,
  )
  const places = sql.join(
    groups.map((_, index) => sql.raw(String(index + 1))),
    sql`, `,
  )
  const rows = await database.execute<Record<string, string | number>>(sql`
      select ${columns}, count(*)::float8 as requests, count(*) filter (where status >= 400)::float8 as errors,
        sum(prompt_tokens)::float8 as prompt_tokens, sum(cached_tokens)::float8 as cached_tokens,
        sum(audio_tokens)::float8 as audio_tokens, sum(completion_tokens)::float8 as completion_tokens,
        sum(pages)::float8 as pages,
        round(avg(latency_ms))::float8 as mean_ms, sum(credits)::float8 as credits
      from usage where ${which} group by ${places} order by ${places}`)
  if (format === 'json') return printJson(rows)
  const sums = ['requests', 'errors', 'prompt_tokens', 'cached_tokens', 'audio_tokens', 'completion_tokens', 'pages']
  const head = [...groups, ...sums, 'mean_ms', 'credits']
  const cells = rows.map((row) => head.map((column) => String(row[column])))
  if (format === 'csv') process.stdout.write([head, ...cells].map(csvLine).join(''))
  else
    printTable(
      head.map((title) => title.toUpperCase().replaceAll('_', ' ')),
      cells,
    )
}

const ROW_NUMBERS = [
  'prompt_tokens',
  'completion_tokens',
  'cached_tokens',
  'audio_tokens',
  'pages',
  'latency_ms',
  'credits',
]
const ROW_COLUMNS = [
  ...['trace_id', 'at', 'organisation', 'key', 'model', 'endpoint', 'status', 'finish'],
  ...ROW_NUMBERS,
]
const PAGE = 5_000

/** In pages: a ledger may be larger than memory. */
async function printRows(database: Database, which: ReturnType<typeof sql>, format: Format): Promise<void> {
  const array = format === 'json' ? new JsonArray() : null
  if (!array) process.stdout.write(csvLine(ROW_COLUMNS))
  let last: Record<string, string> | undefined
  do {
    const behind = last ? sql`and (at, trace_id) > (${last.at}::timestamptz, ${last.trace_id})` : sql``
    const rows: Record<string, string>[] = await database.execute<Record<string, string>>(sql`
        select trace_id, to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
          organisation_id as organisation, key_id as key, model, endpoint, status::text, finish, prompt_tokens,
          completion_tokens, cached_tokens, audio_tokens, pages::text, latency_ms::text, credits
        from usage where ${which} ${behind} order by usage.at, trace_id limit ${PAGE}`)
    if (array) array.write(rows.map(toJson))
    else process.stdout.write(rows.map((row) => csvLine(ROW_COLUMNS.map((column) => String(row[column])))).join(''))
    last = rows.length === PAGE ? rows.at(-1) : undefined
  } while (last)
  array?.end()
}

function toJson(row: Readonly<Record<string, string>>): object {
  const typed = (column: string) => (['status', ...ROW_NUMBERS].includes(column) ? Number(row[column]) : row[column])
  return Object.fromEntries(ROW_COLUMNS.map((column) => [column, typed(column)]))
}
