import { sql } from 'drizzle-orm'
import { ConfigError } from '../config/config.ts'
import { SETTINGS_HELP } from '../config/settings-help.ts'
import type { Command } from './command.ts'
import { printTable, readMoment, readOptions } from './options.ts'
import { withDatabase } from './with-accounts.ts'

/** What rows can be summed by, and the column of the ledger that it is. */
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
  help: `Usage: lookout usage [--by LIST] [--org NAME] [--since TIME] [--until TIME] [--csv]
       lookout usage --rows [--org NAME] [--since TIME] [--until TIME]

  --by     what to sum by, parted by commas: ${Object.keys(GROUPS).join(', ')} (org,model)
  --org    only this organisation
  --since  30d, 12h or 2027-01-31 (30d)
  --until  the same (now)
  --csv    comma-separated values in place of the table
  --rows   every request, as CSV

${SETTINGS_HELP}`,
  async run(args) {
    const { values } = readOptions(args, {
      by: { type: 'string' },
      org: { type: 'string' },
      since: { type: 'string' },
      until: { type: 'string' },
      csv: { type: 'boolean' },
      rows: { type: 'boolean' },
    })
    const since = readMoment(values.since ?? '30d', -1, '--since')
    const until = values.until === undefined ? null : readMoment(values.until, -1, '--until')
    const which = sql`at >= ${since.toISOString()}::timestamptz
      ${until ? sql`and at < ${until.toISOString()}::timestamptz` : sql``}
      ${values.org === undefined ? sql`` : sql`and organisation_id = ${values.org}`}`
    if (values.rows) return printRows(which)
    await printSums(which, readGroups(values.by ?? 'org,model'), values.csv ?? false)
  },
}

function readGroups(text: string): Group[] {
  return text.split(',').map((name) => {
    if (Object.hasOwn(GROUPS, name)) return name as Group
    throw new ConfigError(`--by: expected some of ${Object.keys(GROUPS).join(', ')}, not '${name}'`)
  })
}

async function printSums(which: ReturnType<typeof sql>, groups: readonly Group[], csv: boolean): Promise<void> {
  const columns = sql.join(
    groups.map((group) => sql`${GROUPS[group]} as ${sql.identifier(group)}`),
    sql`, `,
  )
  const places = sql.join(
    groups.map((_, index) => sql.raw(String(index + 1))),
    sql`, `,
  )
  const rows = await withDatabase((database) =>
    database.execute<Record<string, string | number>>(sql`
      select ${columns}, count(*)::float8 as requests, count(*) filter (where status >= 400)::float8 as errors,
        sum(prompt_tokens)::float8 as prompt_tokens, sum(cached_tokens)::float8 as cached_tokens,
        sum(audio_tokens)::float8 as audio_tokens, sum(completion_tokens)::float8 as completion_tokens,
        round(avg(latency_ms))::float8 as mean_ms, sum(credits)::float8 as credits
      from usage where ${which} group by ${places} order by ${places}`),
  )
  const sums = ['requests', 'errors', 'prompt_tokens', 'cached_tokens', 'audio_tokens', 'completion_tokens']
  const head = [...groups, ...sums, 'mean_ms', 'credits']
  const cells = rows.map((row) => head.map((column) => String(row[column])))
  if (csv) process.stdout.write([head, ...cells].map(csvLine).join(''))
  else
    printTable(
      head.map((title) => title.toUpperCase().replaceAll('_', ' ')),
      cells,
    )
}

const ROW_COLUMNS = [
  ...['trace_id', 'at', 'organisation', 'key', 'model', 'endpoint', 'status', 'finish', 'prompt_tokens'],
  ...['completion_tokens', 'cached_tokens', 'audio_tokens', 'latency_ms', 'credits'],
]
const PAGE = 5_000

/** In pages: a ledger may be larger than memory. */
async function printRows(which: ReturnType<typeof sql>): Promise<void> {
  process.stdout.write(csvLine(ROW_COLUMNS))
  await withDatabase(async (database) => {
    let last: Record<string, string> | undefined
    do {
      const behind = last ? sql`and (at, trace_id) > (${last.at}::timestamptz, ${last.trace_id})` : sql``
      const rows: Record<string, string>[] = await database.execute<Record<string, string>>(sql`
        select trace_id, to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
          organisation_id as organisation, key_id as key, model, endpoint, status::text, finish, prompt_tokens,
          completion_tokens, cached_tokens, audio_tokens, latency_ms::text, credits
        from usage where ${which} ${behind} order by usage.at, trace_id limit ${PAGE}`)
      process.stdout.write(rows.map((row) => csvLine(ROW_COLUMNS.map((column) => String(row[column])))).join(''))
      last = rows.length === PAGE ? rows.at(-1) : undefined
    } while (last)
  })
}

/** RFC 4180. */
function csvLine(cells: readonly string[]): string {
  const quoted = cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell))
  return `${quoted.join(',')}\r\n`
}
