import { readdir, readFile } from 'node:fs/promises'
import pg from 'pg'
import { IDLE_IN_TRANSACTION_MS } from './embedded/session.ts'

const FOLDER = new URL('migrations/', import.meta.url)
/** An arbitrary number that no other program on the same database is likely to use for a lock. */
const LOCK = 7_016_514_105

/**
 * Upgrades the database to the newest schema in one transaction: all missing steps or none. Servers that start together
 * wait for one another.
 * @throws Error when the database is newer than this program.
 */
export async function migrate(connection: pg.ClientConfig): Promise<void> {
  const steps = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).sort()
  const client = new pg.Client(connection)
  // When the connection breaks, the next statement fails.
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query(`begin; set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS}`)
    await client.query('select pg_advisory_xact_lock($1)', [LOCK])
    await client.query(
      'create table if not exists lookout_migrations (name text primary key, at timestamptz not null default now())',
    )
    const { rows } = await client.query<{ name: string }>('select name from lookout_migrations')
    const done = new Set(rows.map(({ name }) => name))
    const unknown = [...done].find((name) => !steps.includes(name))
    if (unknown !== undefined) {
      throw new Error(`The database was migrated by a newer Lookout (${unknown}); upgrade this one`)
    }
    for (const name of steps) {
      if (done.has(name)) continue
      await client.query(await readFile(new URL(name, FOLDER), 'utf8'))
      await client.query('insert into lookout_migrations (name) values ($1)', [name])
    }
    await client.query('commit')
  } finally {
    // Closing the connection rolls back an uncommitted transaction.
    await client.end()
  }
}
