import { randomBytes } from 'node:crypto'
import type { Database } from './database.ts'
import { eq } from './drizzle.ts'
import { secrets } from './schema.ts'

const SECRET_BYTES = 32

/**
 * Reads a random secret that all servers on one database share, at first use. The first server that needs it makes it.
 * @returns a function that reads it. @throws ApiError 503 while the database is unavailable.
 */
export function sharedSecret(database: Database, name: string): () => Promise<string> {
  let known: string | null = null
  return async () => {
    known ??= await database.use(async (queries) => {
      const secret = randomBytes(SECRET_BYTES).toString('base64url')
      await queries.insert(secrets).values({ name, secret }).onConflictDoNothing()
      const [row] = await queries.select({ secret: secrets.secret }).from(secrets).where(eq(secrets.name, name))
      return row!.secret
    })
    return known
  }
}
